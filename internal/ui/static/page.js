// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// The page works without this script. The script adds buttons that copy commands, and says whether the page is live.
(function () {
  "use strict";

  function addButtons() {
    if (!navigator.clipboard) {
      return;
    }
    document.querySelectorAll("pre.command").forEach(function (command) {
      if (command.nextElementSibling && command.nextElementSibling.className === "copy") {
        return;
      }
      var button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy the command " + command.textContent);
      button.addEventListener("click", function () {
        navigator.clipboard.writeText(command.textContent).then(function () {
          button.textContent = "Copied";
          setTimeout(function () { button.textContent = "Copy"; }, 2000);
        });
      });
      command.after(button);
    });
  }

  function setLive(isLive) {
    var live = document.getElementById("live");
    live.className = isLive ? "live" : "unlive";
    live.textContent = isLive ? "Live: the page renews itself." :
      "Not connected: the page may be old. It tries again by itself.";
  }

  // A renewal replaces the tables. Each stays where the user scrolled it to.
  var places = {};

  function remember() {
    document.querySelectorAll(".scroll").forEach(function (region) {
      places[region.getAttribute("aria-labelledby")] = region.scrollLeft;
    });
  }

  function restore() {
    document.querySelectorAll(".scroll").forEach(function (region) {
      region.scrollLeft = places[region.getAttribute("aria-labelledby")] || 0;
    });
  }

  addButtons();
  document.addEventListener("htmx:beforeSwap", remember);
  document.addEventListener("htmx:afterSwap", function () {
    addButtons();
    restore();
  });
  document.addEventListener("htmx:sseOpen", function () { setLive(true); });
  document.addEventListener("htmx:sseError", function () { setLive(false); });
  document.addEventListener("htmx:sendError", function () { setLive(false); });
  // A renewal during the selection of a text would end the selection.
  document.addEventListener("htmx:beforeRequest", function (event) {
    if (event.detail.elt.id === "main" && !window.getSelection().isCollapsed) {
      event.preventDefault();
    }
  });
})();
