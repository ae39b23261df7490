// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui/uitest"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/browser"
)

// shown is a page in a browser.
type shown struct {
	*testing.T
	*browser.Tab
	ctx    context.Context
	source *uitest.Source
	base   string
}

// show serves a fleet as the command does, and opens its link in a browser. It skips the test on a machine without one.
func show(t *testing.T) *shown {
	t.Helper()
	t.Parallel()
	path, err := browser.Find()
	if err != nil {
		t.Skip(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	source := uitest.New(40)
	local := ui.NewLocal(newPage(source, "/"), listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: local, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	tab, err := browser.Start(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &shown{T: t, Tab: tab, ctx: ctx, source: source, base: "http://" + listener.Addr().String()}
	s.open(local.Link())
	s.until(`location.pathname === "/" && document.querySelector("h1") !== null && document.readyState === "complete"`)
	return s
}

func (s *shown) open(address string) {
	s.Helper()
	if err := s.Open(s.ctx, address); err != nil {
		s.Fatal(err)
	}
}

// is evaluates a condition.
func (s *shown) is(condition string) bool {
	s.Helper()
	var result bool
	if err := s.Eval(s.ctx, condition, &result); err != nil {
		s.Fatal(err)
	}
	return result
}

// until waits until a condition is true in the page.
func (s *shown) until(condition string) {
	s.Helper()
	if err := s.Until(s.ctx, condition); err != nil {
		s.Fatal(err)
	}
}

func (s *shown) press(keys ...string) {
	s.Helper()
	for _, key := range keys {
		if err := s.Press(s.ctx, key); err != nil {
			s.Fatal(err)
		}
	}
}

// quiet fails if the console has errors, for example violations of the Content-Security-Policy.
func (s *shown) quiet() {
	s.Helper()
	if errors := s.Errors(); errors != "" {
		s.Error(errors)
	}
}

// The page updates itself, announces changes, and keeps the focus and the filter that a user types.
func TestBrowserLiveUpdates(t *testing.T) {
	s := show(t)
	s.until(`document.getElementById("live").className === "live"`)
	s.is(`document.getElementById("filter-cluster").value = "prod-0"; document.getElementById("helmop-fleet-calico").focus();
		window.stays = true`)
	s.source.Change("cert-manager", "prod-007", func(r *addonsv1.HelmOpRelease) {
		r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionFalse, "UpgradeFailed"
		r.Status.Conditions[0].Message = "<b>broken</b>"
	})
	s.until(`document.querySelector("main").textContent.includes("<b>broken</b>")`)
	s.until(`document.querySelector("[role=status]").textContent.includes("8 unhealthy")`)
	for what, condition := range map[string]string{
		"the page was loaded again":   `window.stays === true`,
		"the typed filter was lost":   `document.getElementById("filter-cluster").value === "prod-0"`,
		"the focus was lost":          `document.activeElement.id === "helmop-fleet-calico"`,
		"a message became an element": `document.querySelector("main b") === null`,
		"no buttons copy commands":    `document.querySelectorAll("main button.copy").length > 0`,
		"the cookie can be read":      `document.cookie === ""`,
	} {
		if !s.is(condition) {
			t.Error(what)
		}
	}
	s.quiet()
}

// The page can be used with the keyboard only.
func TestBrowserKeyboard(t *testing.T) {
	s := show(t)
	s.press("Tab")
	if !s.is(`document.activeElement.className === "skip" && document.activeElement.getBoundingClientRect().left >= 0`) {
		t.Error("the first key does not show the link to the content")
	}
	s.press("Enter")
	s.until(`document.activeElement.id === "main"`)
	s.press("Tab")
	s.until(`document.activeElement.closest("main a") !== null`)
	if !s.is(`getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
		t.Error("the focus cannot be seen")
	}
	s.press("Enter")
	s.until(`location.search.startsWith("?state=")`)
	s.quiet()
}

// Without scripts, each view is reached by links and the form.
func TestBrowserWithoutScripts(t *testing.T) {
	s := show(t)
	if err := s.Script(s.ctx, false); err != nil {
		t.Fatal(err)
	}
	s.open(s.base + "/?state=Stalled")
	for _, condition := range []string{
		`document.querySelector(".matrix").textContent.includes("prod-004")`,
		`document.querySelector("button.copy") === null`,
		`document.getElementById("live").textContent.includes("reload")`,
	} {
		if !s.is(condition) {
			t.Error(condition)
		}
	}
	s.is(`document.querySelector(".matrix a[id^=release]").click()`)
	s.until(`document.querySelector("h1").textContent === "ingress in prod-004"`)
	s.quiet()
}

// No view is wider than a narrow window, and texts have enough contrast in light and in dark.
func TestBrowserLooks(t *testing.T) {
	s := show(t)
	for _, width := range []int{390, 1280} {
		for _, dark := range []bool{false, true} {
			if err := s.Look(s.ctx, width, 900, dark); err != nil {
				t.Fatal(err)
			}
			for _, view := range views() {
				if strings.HasSuffix(view, "none") {
					continue // The browser reports the status 404 as an error.
				}
				s.open(s.base + "/" + view)
				var wide []string
				if err := s.Eval(s.ctx, tooWide, &wide); err != nil {
					t.Fatal(err)
				}
				if len(wide) > 0 {
					t.Errorf("%q is wider than %d pixels: %q", view, width, wide)
				}
				var poor []string
				if err := s.Eval(s.ctx, contrast, &poor); err != nil {
					t.Fatal(err)
				}
				if len(poor) > 0 {
					t.Errorf("%q, dark %t: too little contrast: %q", view, dark, poor)
				}
			}
		}
	}
	s.quiet()
}

// tooWide lists the elements that make the page wider than the window.
const tooWide = `(() => {
	if (document.documentElement.scrollWidth <= window.innerWidth) return [];
	return [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > window.innerWidth &&
		!e.closest(".scroll")).map(e => e.tagName + "." + e.className + "#" + e.id);
})()`

// contrast lists texts whose contrast to their background is less than 4.5 (WCAG 2.2, 1.4.3).
const contrast = `(() => {
	const parse = color => color.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
		.map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => {
		for (; e; e = e.parentElement) {
			const color = parse(getComputedStyle(e).backgroundColor);
			if (color.length < 4 || color[3] > 0) return color;
		}
		return [255, 255, 255];
	};
	const poor = new Set();
	document.querySelectorAll("body *").forEach(e => {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) return;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) poor.add(e.textContent.trim().slice(0, 40));
	});
	return [...poor];
})()`
