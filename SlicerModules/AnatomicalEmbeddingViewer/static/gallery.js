// The gallery of a cohort: one place in every scan. The page sorts and filters. The server searches and makes pictures.
"use strict";

const element = (id) => document.getElementById(id);
const gallery = { scans: new Map(), places: [], searched: false };
window.gallery = gallery;

async function request(address, options) {
  const answer = await fetch(address, options);
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

function report(text) {
  element("sentence").textContent = text;
  element("sentence").hidden = !text;
}

const address = (each) => `id=${each.id}&point=${each.place.join(",")}`;

function visiblePlaces() {
  const status = element("status").value;
  const level = element("level").value;
  const order = element("order").value;
  const kept = gallery.places.filter(
    (each) =>
      each.place &&
      (!status || !each.status || each.status === status) &&
      (!level || (each.low_mm <= Number(level) && Number(level) <= each.high_mm)) &&
      (!element("odd").checked || gallery.scans.get(each.id).odd),
  );
  const rank = { matched: 0, uncertain: 1 };
  const by = {
    probability: (a, b) => (rank[a.status] ?? 2) - (rank[b.status] ?? 2) || (b.probability ?? 0) - (a.probability ?? 0),
    similarity: (a, b) => (b.similarity ?? 0) - (a.similarity ?? 0),
    name: (a, b) => a.name.localeCompare(b.name),
  };
  return kept.sort(by[order]);
}

function makeCard(each) {
  const figure = document.createElement("figure");
  figure.dataset.scan = each.name;
  figure.title = `${each.scan}\n${each.held}`;
  const open = document.createElement("button");
  open.title = "Open this scan at this place";
  open.onclick = () => openScan(each);
  const image = document.createElement("img");
  image.loading = "lazy";
  image.alt = "";
  image.src = `gallery/picture?${address(each)}&plane=${element("plane").value}`;
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
  like.title = "Find this place in all other scans";
  like.onclick = () => search(`gallery/find?${address(each)}`);
  caption.append(document.createElement("br"), like);
  figure.append(open, caption);
  return figure;
}

function draw() {
  const places = visiblePlaces();
  element("cards").replaceChildren(...places.map(makeCard));
  element("cards").scrollTop = 0;
  const absent = gallery.places.filter((each) => !each.place).length;
  element("count").textContent = `${places.length} of ${gallery.places.length} scans${absent ? `, absent in ${absent}` : ""}`;
}

async function openScan(each) {
  try {
    await request(`gallery/open?${address(each)}`, { method: "POST" });
    location.href = "index.html";
  } catch (error) {
    report(error.message);
  }
}

async function search(where) {
  report("searching …");
  try {
    gallery.places = await (await request(where)).json();
    gallery.searched = true;
    report("");
    draw();
  } catch (error) {
    report(error.message);
  }
}

addEventListener("DOMContentLoaded", async () => {
  element("search").onsubmit = (event) => {
    event.preventDefault();
    const words = element("words").value.trim();
    if (words) search(`gallery/find?words=${encodeURIComponent(words)}`);
  };
  for (const id of ["plane", "order", "status", "level", "odd"]) element(id).onchange = draw;
  try {
    const found = await (await request("gallery/scans")).json();
    document.title = element("cohort").textContent = found.name;
    for (const [name, at] of Object.entries(found.levels)) element("level").add(new Option(`shows ${name}`, at));
    gallery.scans = new Map(found.places.map((each) => [each.id, each]));
    gallery.places = found.places;
    draw();
  } catch (error) {
    report(error.message);
  }
});
