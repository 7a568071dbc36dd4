// Keeps the page up to date: asks for it again every few seconds, and changes what differs, so that
// focus, scrolling and selected text stay where they are. Without it, the browser reloads.
"use strict";

const SECONDS = 2;
const MOST_SECONDS = 30;
const PATIENCE_SECONDS = 10;

let shown = null;
let failures = 0;
let updated = new Date();
let wake = () => {};

function element(id) {
  return document.getElementById(id);
}

// Makes a node like another one, touching only what differs.
function morph(have, want) {
  if (have.isEqualNode(want)) return;
  const alike = have.nodeType === Node.ELEMENT_NODE && have.nodeName === want.nodeName && have.id === want.id;
  if (!alike) {
    have.replaceWith(document.importNode(want, true));
    return;
  }
  for (const { name } of [...have.attributes]) {
    if (!want.hasAttribute(name)) have.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) {
    if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  }
  const wanted = [...want.childNodes];
  while (have.childNodes.length > wanted.length) have.lastChild.remove();
  wanted.forEach((child, at) => {
    if (at < have.childNodes.length) morph(have.childNodes[at], child);
    else have.append(document.importNode(child, true));
  });
}

function states() {
  const found = document.querySelectorAll("main [data-job]");
  return new Map([...found].map((each) => [each.dataset.job, each.dataset.state]));
}

// Tells a screen reader which jobs have another state now, and of nothing else.
function announce(before, after) {
  const changed = [...after].filter(([job, state]) => before.has(job) && before.get(job) !== state);
  if (changed.length) element("said").textContent = changed.map(([job, state]) => `${job}: ${state}`).join("; ");
}

function show(text) {
  if (text === shown) return;
  const page = new DOMParser().parseFromString(text, "text/html");
  const content = page.querySelector("#offline + main#content");
  if (!content) throw new Error("not our page");
  const focused = document.activeElement?.id;
  const before = states();
  if (shown !== null || content.innerHTML !== element("content").innerHTML) morph(element("content"), content);
  document.title = page.title;
  if (focused && document.activeElement === document.body) element(focused)?.focus();
  announce(before, states());
  shown = text;
}

async function update() {
  let problem = "No answer from the server";
  try {
    const signal = AbortSignal.timeout(1000 * PATIENCE_SECONDS);
    const response = await fetch(location.href, { cache: "no-cache", signal });
    if (!response.ok && response.status !== 404) throw new Error(`status ${response.status}`);
    const text = await response.text();
    problem = "The answer is of another page, such as that of a login"; // by a proxy
    show(text);
    failures = 0;
    updated = new Date();
    element("offline").hidden = true;
    element("live").textContent = `Live: ${updated.toLocaleTimeString()}`;
  } catch (error) {
    failures += 1;
    element("live").textContent = "Not connected";
    element("offline").hidden = false;
    element("offline").textContent = `${problem}: this is what was known at ${updated.toLocaleTimeString()}. Reload to try again.`;
  }
}

async function follow() {
  for (;;) {
    if (!document.hidden) await update();
    const seconds = Math.min(MOST_SECONDS, SECONDS * 2 ** Math.min(failures, 5));
    await new Promise((done) => {
      wake = done;
      setTimeout(done, 1000 * seconds);
    });
  }
}

document.addEventListener("visibilitychange", () => wake());
follow();
