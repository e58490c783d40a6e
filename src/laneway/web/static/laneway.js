// What HTML cannot do by itself: times in the browser's zone, copying, keeping what a user has
// chosen while a live update replaces its surroundings, saying that updates have stopped or that the
// session is over, and leaving the connection of a page that is out of sight to others.
"use strict";
(function () {
  // A long time names its zone; terminals and objects have UTC.
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

  function times(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(time.getAttribute("datetime"));
      if (!Number.isNaN(moment.valueOf())) {
        time.textContent = format.format(moment);
        time.title = time.getAttribute("datetime");
      }
    }
  }

  // A check box of a row, an open disclosure and a scrolled table stay as the user has them.
  Idiomorph.defaults.ignoreActiveValue = true;
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) =>
    !((name === "checked" || name === "value") && element.hasAttribute("data-keep")) &&
    !(name === "open" && element.tagName === "DETAILS");

  function selection() {
    for (const form of document.querySelectorAll("[data-selection]")) {
      const boxes = [...form.querySelectorAll("input[data-row]")];
      const chosen = boxes.filter((box) => box.checked).length;
      const all = form.querySelector("input[data-all]");
      if (all) {
        all.checked = chosen > 0 && chosen === boxes.length;
        all.indeterminate = chosen > 0 && chosen < boxes.length;
      }
      for (const count of form.querySelectorAll("[data-chosen]")) count.textContent = String(chosen);
    }
  }

  // Where the pages stand in one row, the one that is shown may be out of sight.
  function current() {
    const link = document.querySelector(".nav-list [aria-current]");
    if (link) link.scrollIntoView({ block: "nearest", inline: "center" });
  }

  function settle() {
    times(document);
    selection();
  }

  document.addEventListener("change", (event) => {
    const form = event.target.closest("[data-selection]");
    if (form && event.target.matches("[data-all]"))
      for (const box of form.querySelectorAll("input[data-row]")) box.checked = event.target.checked;
    selection();
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).innerText);
    const text = button.firstElementChild;
    const before = text.textContent;
    text.textContent = "✓";
    setTimeout(() => { text.textContent = before; }, 1500);
  });

  // The stream says every 15 seconds that it is there.
  const SILENCE = 40000;
  let heard = Date.now();

  function stream(away) {
    if (!away) heard = Date.now();
    const notice = document.getElementById("stream-notice");
    const over = document.getElementById("session-notice");
    if (notice) notice.hidden = !away || Boolean(over && over.firstElementChild);
  }

  // A stream that was refused says nothing of why.
  async function lost() {
    stream(true);
    const notice = document.getElementById("session-notice");
    if (!notice || notice.firstElementChild) return;
    const answer = await fetch("/session", { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!answer || answer.status !== 401) return;
    notice.innerHTML = await answer.text();
    stream(true);
  }

  setInterval(() => {
    const connector = document.getElementById("connector");
    if (connector && connector.hasAttribute("sse-connect") && !document.hidden)
      if (Date.now() - heard > SILENCE) stream(true);
  }, 5000);

  // A browser opens six connections to a site, and each stream takes one. So a page that is out of
  // sight leaves its own to others, and catches up when it is looked at again.
  function rest() {
    const connector = document.getElementById("connector");
    if (!connector || !connector.hasAttribute("sse-connect")) return;
    const is = connector.cloneNode(false);
    if (document.hidden) {
      htmx.trigger(connector, "htmx:beforeCleanupElement");
      is.setAttribute("data-resting", "");
      connector.replaceWith(is);
    } else if (is.hasAttribute("data-resting")) {
      is.removeAttribute("data-resting");
      heard = Date.now();
      connector.replaceWith(is);
      htmx.process(is);
    }
  }

  document.addEventListener("visibilitychange", rest);
  // What was asked for on a page is not put into the one that follows it. Where a question waits
  // for another, it begins when that one is aborted.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target !== document.body) return;
    for (let round = 0; round < 2; round += 1)
      for (const asking of document.querySelectorAll("main .htmx-request"))
        if (asking !== event.detail.requestConfig.elt) htmx.trigger(asking, "htmx:abort");
  });

  document.addEventListener("htmx:sseError", lost);
  document.addEventListener("htmx:sendError", () => stream(true));
  document.addEventListener("htmx:sseOpen", (event) => {
    stream(false);
    for (const name of ["alive", "blocks"]) event.detail.source.addEventListener(name, () => stream(false));
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    settle();
    if (event.detail.target === document.body) current();
  });
  document.addEventListener("htmx:oobAfterSwap", (event) => {
    settle();
    // What depends on a live part asks for it: hx-trigger="live from:#live-NAME".
    event.detail.target.dispatchEvent(new CustomEvent("live"));
  });
  document.addEventListener("DOMContentLoaded", () => { settle(); current(); });
})();
