# ruff: noqa: N803 - the names are those of Slicer
"""Annotations of parameters: what values are allowed, and how widgets show them."""

from dataclasses import dataclass


class Validator:
    """Checks a value; raises ValueError where it is not allowed."""

    def validate(self, value) -> None:
        raise NotImplementedError


class NotNone(Validator):
    def validate(self, value) -> None:
        if value is None:
            raise ValueError("Value must not be None")


class IsInstance(Validator):
    def __init__(self, kind) -> None:
        self.kind = kind

    def validate(self, value) -> None:
        if value is not None and not isinstance(value, self.kind):
            raise TypeError(f"Value must be of type {self.kind}, but {value!r} is of type {type(value)}")


class WithinRange(Validator):
    def __init__(self, minimum, maximum) -> None:
        self.minimum, self.maximum = minimum, maximum

    def validate(self, value) -> None:
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"Value must be within [{self.minimum}, {self.maximum}], is {value}")


class Minimum(Validator):
    def __init__(self, minimum) -> None:
        self.minimum = minimum

    def validate(self, value) -> None:
        if value < self.minimum:
            raise ValueError(f"Value must be at least {self.minimum}, is {value}")


class Maximum(Validator):
    def __init__(self, maximum) -> None:
        self.maximum = maximum

    def validate(self, value) -> None:
        if value > self.maximum:
            raise ValueError(f"Value must be at most {self.maximum}, is {value}")


class Choice(Validator):
    def __init__(self, choices) -> None:
        self.choices = choices

    def validate(self, value) -> None:
        if value not in self.choices:
            raise ValueError(f"Value must be one of {self.choices}, is {value}")


class Exclude(Validator):
    def __init__(self, excludedValues) -> None:
        self.excludedValues = excludedValues

    def validate(self, value) -> None:
        if value in self.excludedValues:
            raise ValueError(f"Value must not be one of {self.excludedValues}, is {value}")


class RangeBounds(Validator):
    def __init__(self, minimum, maximum) -> None:
        self.minimum, self.maximum = minimum, maximum

    def validate(self, value) -> None:
        if not self.minimum <= value.minimum <= value.maximum <= self.maximum:
            raise ValueError(f"Range must be within [{self.minimum}, {self.maximum}], is {value}")


class Exactly(Validator):
    def __init__(self, value) -> None:
        self.value = value

    def validate(self, value) -> None:
        if value is not self.value:
            raise ValueError(f"Value must be {self.value}, is {value}")


@dataclass
class Decimals:
    """Decimals of the connected spin box or slider."""

    value: int


@dataclass
class SingleStep:
    """Step of the connected spin box or slider."""

    value: float
