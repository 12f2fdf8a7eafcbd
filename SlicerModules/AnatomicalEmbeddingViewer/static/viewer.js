// The page's own script: it reconnects after a lost connection, sends files, and handles keys.
"use strict";

const viewer = { sockets: new Set(), sending: false, leaving: false };
window.viewer = viewer;

// -- connection: trame does not reopen a closed socket, so the page is loaded again. The server keeps the session.

addEventListener("beforeunload", () => (viewer.leaving = true));

window.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    viewer.sockets.add(this);
    this.addEventListener("close", () => {
      viewer.sockets.delete(this);
      if (!viewer.leaving) viewer.reconnect();
    });
  }
  // trame requests blobs. It gets array buffers instead, because the browser fetches a blob twice from another process.
  set binaryType(_kind) {
    super.binaryType = "arraybuffer";
  }
};
ArrayBuffer.prototype.arrayBuffer ??= async function () {
  return this;
};

// -- pictures get data URLs, because the browser looks up the URL of a blob in another process, twice for each picture

const PlainBlob = Blob;
window.Blob = class extends PlainBlob {
  constructor(parts, options) {
    super(parts, options);
    const bytes = parts?.length === 1 && (parts[0] instanceof Uint8Array || parts[0] instanceof ArrayBuffer);
    if (bytes && options?.type?.startsWith("image/")) this.picture = new Uint8Array(parts[0]);
  }
  static [Symbol.hasInstance](object) {
    return object instanceof PlainBlob; // also true for files and for blobs that the browser itself makes
  }
};
const createObjectURL = URL.createObjectURL;
URL.createObjectURL = (object) =>
  object.picture?.toBase64 ? `data:${object.type};base64,${object.picture.toBase64()}` : createObjectURL.call(URL, object);

viewer.reconnect = async () => {
  document.getElementById("lost").hidden = false;
  for (;;) {
    try {
      const answer = await fetch("alive", { cache: "no-store" });
      if (answer.ok) return location.reload();
      if (answer.status === 403) {
        document.querySelector("#lost p").textContent = await answer.text();
        return;
      }
    } catch {
      // the viewer does not answer yet
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
};

// -- files: one request sends all chosen or dropped files. The server reports errors on the page.

viewer.send = (files) => {
  if (!files.length || viewer.sending) return;
  const form = new FormData();
  for (const file of files) form.append("files", file, file.webkitRelativePath || file.name);
  const request = new XMLHttpRequest();
  const bar = document.getElementById("sending");
  const show = (share) => {
    if (bar) bar.textContent = share === null ? "" : `sending ${Math.round(100 * share)} %`;
  };
  request.upload.onprogress = (event) => event.lengthComputable && show(event.loaded / event.total);
  request.onloadend = () => {
    viewer.sending = false;
    show(null);
    document.body.dataset.sent = Number(document.body.dataset.sent || 0) + 1;
  };
  viewer.sending = true;
  request.open("POST", "upload");
  request.send(form);
};

viewer.choose = (event) => {
  viewer.send([...event.target.files]);
  event.target.value = "";
};

const filesOf = async (entry) => {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!part.length) return found;
    for (const each of part) found.push(...(await filesOf(each)));
  }
};

addEventListener("dragover", (event) => {
  event.preventDefault();
});
addEventListener("drop", async (event) => {
  event.preventDefault();
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
  viewer.send((await Promise.all(entries.map(filesOf))).flat());
});

// -- keys; they are ignored while the user types in a field

const KEYS = { p: "key-place", w: "key-window", c: "key-crosshair", escape: "key-move" };
addEventListener(
  "keydown",
  (event) => {
    const key = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && key === "f" && !event.altKey && !event.shiftKey) {
      event.preventDefault(); // the browser's own search finds nothing in pictures
      document.getElementById("key-find")?.select();
      return;
    }
    if (event.target.closest("input:not([type=checkbox], [type=radio], [type=range]), select, textarea")) return;
    const control = event.ctrlKey || event.metaKey;
    const undo = control && key === "z";
    const id = undo ? (event.shiftKey ? "key-redo" : "key-undo") : control || event.altKey ? null : KEYS[key];
    const button = id && document.getElementById(id);
    if (!button) return;
    event.preventDefault();
    event.stopPropagation();
    button.click();
  },
  true,
);

// -- ask the user before an action that cannot be undone
addEventListener(
  "click",
  (event) => {
    const asking = event.target.closest("[data-ask]");
    if (!asking || confirm(asking.dataset.ask)) return;
    event.preventDefault();
    event.stopPropagation();
  },
  true,
);

// -- close open menus when the user clicks elsewhere
addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
  }
});
