// The page keeps a row for every run, as the server's events tell, and asks for
// curves and details anew when a run that is shown has changed.
"use strict";
const $ = (id) => document.getElementById(id);
const runs = new Map(); // key → row
const drawn = new Set(); // keys
let chosen = null; // key of the run whose details are shown
let picked = false; // the user has picked what is drawn

// The token comes behind the # of the address, which browsers keep to themselves.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname);
}
const token = sessionStorage.getItem("token") ?? "";
const known = { headers: { "X-Gradlab-Token": token } };
$("report").href += "?token=" + encodeURIComponent(token);

function element(tag, text, kind) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}

function bytes(n) {
  if (n < 1000) return n + " B";
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    n /= 1000;
    if (n < 999.95) return n.toFixed(1) + " " + unit;
  }
  return (n / 1000).toFixed(1) + " PB";
}

function seconds(s) {
  if (s < 1) return (s * 1000).toFixed(0) + " ms";
  if (s < 60) return s.toFixed(1) + " s";
  if (s < 3600) return (s / 60).toFixed(1) + " min";
  return (s / 3600).toFixed(1) + " h";
}

function ago(time) {
  const s = (Date.now() - Date.parse(time)) / 1000;
  return s < 2 ? "now" : seconds(s) + " ago";
}

// shares is a bar of the parts of a rank's time, in the server's order.
function shares(time) {
  const bar = element("div", undefined, "share"), parts = ["compute", "encode", "decode", "wire", "wait", "rest"];
  for (const part of time) {
    const piece = element("i");
    piece.style.width = 100 * part + "%";
    bar.append(piece);
  }
  bar.title = time.map((part, i) => parts[i] + " " + (100 * part).toFixed(1) + " %").join(", ");
  return bar;
}

const name = (r) => (r.name ? r.recipe + " " + r.name : r.recipe);

function table() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = [...runs.values()].filter((r) => words.every((w) => (name(r) + " " + r.state).toLowerCase().includes(w)));
  if (!picked) {
    drawn.clear();
    const running = shown.filter((r) => r.state === "running");
    for (const r of (running.length ? running : shown).slice(0, 8)) drawn.add(r.key);
  }
  const body = $("runs").tBodies[0];
  const focus = document.activeElement?.dataset?.key;
  body.replaceChildren(...shown.map((r) => {
    const row = element("tr");
    row.dataset.key = r.key;
    row.tabIndex = 0;
    if (r.key === chosen) row.className = "chosen";
    const box = element("input");
    box.type = "checkbox";
    box.checked = drawn.has(r.key);
    box.setAttribute("aria-label", "draw " + name(r));
    box.onclick = (e) => {
      e.stopPropagation();
      picked = true;
      box.checked ? drawn.add(r.key) : drawn.delete(r.key);
      curves();
    };
    const first = element("td");
    first.append(box);
    const state = element("td");
    state.append(element("span", r.state, "state " + r.state));
    row.append(first, element("th", name(r)), state);
    for (const text of [r.step, r.epoch.toFixed(2), r.test, r.loss.toPrecision(3),
      seconds(r.seconds) + (r.virtual ? " virtual" : ""), bytes(r.bytes), r.staleness.toFixed(2), ago(r.updated)]) row.append(element("td", text, "n"));
    row.onclick = () => choose(r.key);
    row.onkeydown = (e) => { if (e.key === "Enter" && e.target === row) choose(r.key); };
    return row;
  }));
  if (focus) body.querySelector(`tr[data-key="${focus}"]`)?.focus();
  const counts = {};
  for (const r of runs.values()) counts[r.state] = (counts[r.state] ?? 0) + 1;
  $("counts").textContent = Object.entries(counts).map(([s, n]) => n + " " + s).join(", ") || "no runs yet";
}

// inTurn does work once at a time, and once more if it was asked for meanwhile.
function inTurn(work) {
  let busy = false, again = false;
  return async () => {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      try { await work(); } catch { /* the connection says so itself */ }
    }
    busy = false;
  };
}

const curves = inTurn(async () => {
  const keys = [...drawn].filter((k) => runs.has(k));
  if (!keys.length) { $("panels").replaceChildren(); $("legend").replaceChildren(); return; }
  const answer = await fetch("/api/figures?" + keys.map((k) => "run=" + k).join("&"), known);
  if (!answer.ok) return;
  const drawing = await answer.json();
  // The drawing is the server's own; names in it are escaped there.
  const put = (parts, tag, fill) => parts.map((p) => { const e = element(tag); e.innerHTML = p.svg; fill(e, p); return e; });
  $("panels").replaceChildren(...put(drawing.panels, "div", (e, p) => { e.className = "panel"; e.setAttribute("role", "img"); e.setAttribute("aria-label", p.name); }));
  $("legend").replaceChildren(...put(drawing.legend, "li", (e, p) => e.append(element("span", p.name))));
});

function choose(key) {
  chosen = key === chosen ? null : key;
  $("said").textContent = "";
  table();
  detail();
}

const detail = inTurn(async () => {
  $("detail").hidden = chosen === null;
  if (chosen === null) return;
  const answer = await fetch("/api/runs/" + chosen, known);
  if (!answer.ok) return;
  const d = await answer.json();
  $("title").textContent = name(d);
  $("folder").textContent = d.folder + ", configuration " + d.id;
  $("error").textContent = [d.error, ...d.lost].filter(Boolean).join("; ");
  $("stop").hidden = d.state !== "running";
  $("stop").disabled = false;
  $("settings").textContent = Object.entries(d.settings).map(([k, v]) => k + ": " + v).join("\n");
  $("live-workers").hidden = !d.workers.length;
  $("tiles").replaceChildren(...d.workers.map((w) => {
    const tile = element("li"), head = element("b");
    head.append(element("span", "worker " + w.rank), element("span", w.state, "state " + w.state));
    tile.append(head, element("div", `step ${w.step}, ${w.rate.toPrecision(3)} a second`), element("div", `staleness ${w.staleness}, told at ${seconds(w.seconds)}`), shares(w.time));
    return tile;
  }));
  $("noranks").hidden = d.ranks.length > 0;
  $("ranks").hidden = !d.ranks.length;
  $("ranks").tBodies[0].replaceChildren(...d.ranks.sort((a, b) => a.rank - b.rank).map((r) => {
    const row = element("tr");
    row.append(element("td", r.rank, "n"), element("td", r.role));
    for (const text of [r.steps, r.pushes, r.refused, bytes(r.sent), bytes(r.received), seconds(r.seconds)]) row.append(element("td", text, "n"));
    const cell = element("td");
    cell.append(shares(r.time));
    row.append(cell);
    return row;
  }));
  const counts = d.staleness ?? [];
  $("stale").hidden = counts.length < 2;
  const width = Math.ceil(counts.length / 24), bins = [];
  for (let i = 0; i < counts.length; i += width) bins.push(counts.slice(i, i + width).reduce((a, b) => a + b, 0));
  const tallest = Math.max(1, ...bins);
  $("histogram").replaceChildren(...bins.map((n, i) => {
    const line = element("div", undefined, "bin"), bar = element("i");
    bar.style.width = (100 * n) / tallest + "%";
    line.append(element("span", width > 1 ? `${i * width}–${(i + 1) * width - 1}` : i), element("span", n), bar);
    return line;
  }));
});

$("stop").onclick = async () => {
  $("stop").disabled = true;
  const answer = await fetch(`/api/runs/${chosen}/stop`, { method: "POST", ...known });
  $("said").textContent = answer.ok ? "asked to stop" : await answer.text();
};
$("filter").oninput = () => { table(); curves(); };

function take(rows, all) {
  if (all) runs.clear();
  for (const r of rows) runs.set(r.key, r);
  const sorted = [...runs.values()].sort((a, b) => (b.state === "running") - (a.state === "running") || Date.parse(b.started) - Date.parse(a.started));
  runs.clear();
  for (const r of sorted) runs.set(r.key, r);
  table();
  if (all || rows.some((r) => drawn.has(r.key))) curves();
  if (rows.some((r) => r.key === chosen)) detail();
}

// A browser opens six connections to one server at most, so all its tabs share one stream.
// One of them has it, as long as it is open, and tells the others; the lock passes it on.
const shared = "gradlab " + token; // of the lock and the channel, which are this server's own
const live = (on) => { $("live").textContent = on ? "live" : "no connection"; $("live").className = "state " + (on ? "live" : "lost"); };
const refused = () => { $("counts").textContent = "open the address that gradlab serve printed: it ends in a token"; };
const hear = { all: (rows) => take(rows, true), changed: (rows) => take(rows, false), live, refused };
const stream = (tell) => {
  const events = new EventSource("/api/events?token=" + encodeURIComponent(token));
  events.onopen = () => tell("live", true);
  events.onerror = () => {
    tell("live", false);
    if (events.readyState === EventSource.CLOSED) tell("refused");
  };
  for (const kind of ["all", "changed"]) events.addEventListener(kind, (e) => tell(kind, JSON.parse(e.data)));
};
if (navigator.locks && window.BroadcastChannel) {
  const channel = new BroadcastChannel(shared);
  let mine = false, on = false;
  channel.onmessage = ({ data: [kind, what] }) => {
    if (kind !== "asks") hear[kind](what);
    else if (mine) {
      channel.postMessage(["live", on]);
      if (on) channel.postMessage(["all", [...runs.values()]]);
    }
  };
  channel.postMessage(["asks"]);
  navigator.locks.request(shared, () => {
    mine = true;
    stream((kind, what) => {
      if (kind === "live") on = what;
      hear[kind](what);
      channel.postMessage([kind, what]);
    });
    return new Promise(() => {}); // it is held until the tab is closed
  });
} else stream((kind, what) => hear[kind](what));
setInterval(table, 5000); // for what was last heard
