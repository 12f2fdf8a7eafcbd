"""Methods of papers to compare with, each in a folder of its own with a README. Nothing else imports them."""
