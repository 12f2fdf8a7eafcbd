// The gallery of a cohort: one place in every scan. Sorting and filters are the page's, searches and pictures the server's.
"use strict";

const part = (id) => document.getElementById(id);
const gallery = { scans: new Map(), places: [], searched: false };
window.gallery = gallery;

async function ask(address, options) {
  const answer = await fetch(address, options);
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

function say(text) {
  part("sentence").textContent = text;
  part("sentence").hidden = !text;
}

const address = (each) => `id=${each.id}&point=${each.place.join(",")}`;

function shown() {
  const status = part("status").value;
  const level = part("level").value;
  const order = part("order").value;
  const kept = gallery.places.filter(
    (each) =>
      each.place &&
      (!status || !each.status || each.status === status) &&
      (!level || (each.low_mm <= Number(level) && Number(level) <= each.high_mm)) &&
      (!part("odd").checked || gallery.scans.get(each.id).odd),
  );
  const rank = { matched: 0, uncertain: 1 };
  const by = {
    probability: (a, b) => (rank[a.status] ?? 2) - (rank[b.status] ?? 2) || (b.probability ?? 0) - (a.probability ?? 0),
    similarity: (a, b) => (b.similarity ?? 0) - (a.similarity ?? 0),
    name: (a, b) => a.name.localeCompare(b.name),
  };
  return kept.sort(by[order]);
}

function card(each) {
  const figure = document.createElement("figure");
  figure.dataset.scan = each.name;
  figure.title = `${each.scan}\n${each.held}`;
  const open = document.createElement("button");
  open.title = "Open this scan at this place";
  open.onclick = () => show(each);
  const image = document.createElement("img");
  image.loading = "lazy";
  image.alt = "";
  image.src = `gallery/picture?${address(each)}&plane=${part("plane").value}`;
  open.append(image);
  const caption = document.createElement("figcaption");
  const name = document.createElement("div");
  name.textContent = each.name;
  caption.append(name);
  if (each.status) {
    const status = document.createElement("span");
    status.className = each.status;
    status.textContent = each.text;
    caption.append(status);
  }
  const odd = gallery.scans.get(each.id).odd;
  if (odd) {
    const line = document.createElement("div");
    line.className = "oddity";
    line.textContent = odd;
    caption.append(line);
  }
  const like = document.createElement("button");
  like.className = "bare like";
  like.textContent = "all like this";
  like.onclick = () => search(`gallery/find?${address(each)}`);
  caption.append(document.createElement("br"), like);
  figure.append(open, caption);
  return figure;
}

function draw() {
  const places = shown();
  part("cards").replaceChildren(...places.map(card));
  part("cards").scrollTop = 0;
  const absent = gallery.places.filter((each) => !each.place).length;
  part("count").textContent = `${places.length} of ${gallery.places.length} scans${absent ? `, absent in ${absent}` : ""}`;
}

async function show(each) {
  try {
    await ask(`gallery/open?${address(each)}`, { method: "POST" });
    location.href = "index.html";
  } catch (error) {
    say(error.message);
  }
}

async function search(where) {
  say("searching …");
  try {
    gallery.places = await (await ask(where)).json();
    gallery.searched = true;
    say("");
    draw();
  } catch (error) {
    say(error.message);
  }
}

addEventListener("DOMContentLoaded", async () => {
  part("search").onsubmit = (event) => {
    event.preventDefault();
    const words = part("words").value.trim();
    if (words) search(`gallery/find?words=${encodeURIComponent(words)}`);
  };
  for (const id of ["plane", "order", "status", "level", "odd"]) part(id).onchange = draw;
  try {
    const found = await (await ask("gallery/scans")).json();
    document.title = part("cohort").textContent = found.name;
    for (const [name, at] of Object.entries(found.levels)) part("level").add(new Option(`shows ${name}`, at));
    gallery.scans = new Map(found.places.map((each) => [each.id, each]));
    gallery.places = found.places;
    draw();
  } catch (error) {
    say(error.message);
  }
});
