// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview/fleettest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui/uitest"
)

// newPage returns the handler of a page for a source.
func newPage(source ui.Source, base string) http.Handler {
	return ui.New(ui.Options{Source: source, Base: base, Scope: "namespace " + uitest.Namespace,
		Program: fleetview.Program{Name: "kubectl helmop"}, MaxStreams: 2, Now: uitest.Now})
}

// views are the paths of all views, below the base.
func views() []string {
	return []string{"", "versions", "helmop/fleet/calico", "helmop/fleet/ingress", "cluster/fleet/prod-005",
		"cluster/fleet/prod-002", "release/fleet/" + apiutil.ChildName("ingress", "prod-004"),
		"release/fleet/" + apiutil.ChildName("calico", "canary-2"), "?state=Unhealthy", "?cluster=none", "?selector=!!",
		"helmop/fleet/none", "release/fleet/none", "cluster/fleet/none", "none"}
}

// get returns the response for a path.
func get(t testing.TB, page http.Handler, path string, headers ...string) (status int, text string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, name := range headers {
		r.Header.Set(name, "true")
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// nodes returns all elements of a document.
func nodes(t testing.TB, text string) []*html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var elements []*html.Node
	for node := range root.Descendants() {
		if node.Type == html.ElementNode {
			elements = append(elements, node)
		}
	}
	return elements
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func count(elements []*html.Node, tag string) int {
	total := 0
	for _, element := range elements {
		if element.Data == tag {
			total++
		}
	}
	return total
}

// checkBalance fails if an element of a kind is closed more or less often than it is opened: a browser then guesses.
func checkBalance(t *testing.T, text string) {
	t.Helper()
	opened := map[string]int{}
	for tokens := html.NewTokenizer(strings.NewReader(text)); ; {
		switch tokens.Next() {
		case html.ErrorToken:
			for _, tag := range []string{"meta", "link", "input", "path", "rect"} {
				delete(opened, tag)
			}
			for tag, n := range opened {
				if n != 0 && tag != "option" {
					t.Errorf("%d more <%s> than </%s>", n, tag, tag)
				}
			}
			return
		case html.StartTagToken:
			opened[tokens.Token().Data]++
		case html.EndTagToken:
			opened[tokens.Token().Data]--
		}
	}
}

// Each view can be used with the keyboard and a screen reader, and needs no inline script or style.
func TestStructure(t *testing.T) {
	t.Parallel()
	page := newPage(uitest.New(40), "/")
	for _, path := range views() {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			status, text := get(t, page, "/"+path)
			isMissing := strings.HasSuffix(path, "none") && !strings.Contains(path, "?")
			if want := map[bool]int{true: 404, false: 200}[isMissing]; status != want {
				t.Errorf("status %d, want %d", status, want)
			}
			checkBalance(t, text)
			elements := nodes(t, text)
			for _, tag := range []string{"h1", "main", "header", "footer"} {
				if n := count(elements, tag); n != 1 {
					t.Errorf("%d elements %s", n, tag)
				}
			}
			ids := map[string]bool{}
			for _, element := range elements {
				checkElement(t, element, ids)
			}
			for _, element := range elements {
				for _, name := range []string{"aria-labelledby", "for"} {
					if id := attribute(element, name); id != "" && !ids[id] {
						t.Errorf("no element has the id %q", id)
					}
				}
			}
			if !ids["main"] || !strings.Contains(text, `href="#main"`) || !strings.Contains(text, `role="status"`) {
				t.Error("the link to the content or the region for announcements is missing")
			}
		})
	}
}

func checkElement(t *testing.T, element *html.Node, ids map[string]bool) {
	t.Helper()
	for _, a := range element.Attr {
		switch {
		case a.Key == "style" || strings.HasPrefix(a.Key, "on") || strings.HasPrefix(a.Key, "hx-on"):
			t.Errorf("<%s %s=%q>", element.Data, a.Key, a.Val)
		case a.Key == "id" && ids[a.Val]:
			t.Errorf("two elements have the id %q", a.Val)
		case a.Key == "id":
			ids[a.Val] = true
		case a.Key == "href" || a.Key == "src" || a.Key == "action":
			if !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "?") && a.Val != "#main" ||
				strings.HasPrefix(a.Val, "//") {
				t.Errorf("<%s %s=%q>", element.Data, a.Key, a.Val)
			}
		}
	}
	switch element.Data {
	case "script":
		if element.FirstChild != nil || attribute(element, "src") == "" {
			t.Error("an inline script")
		}
	case "style":
		t.Error("an inline style")
	case "th":
		if scope := attribute(element, "scope"); scope != "col" && scope != "row" {
			t.Errorf("a header of a table without a scope: %v", element)
		}
	case "input", "select":
		if element.Parent.Data != "label" {
			t.Errorf("no label for %q", attribute(element, "name"))
		}
	case "svg":
		if attribute(element, "aria-label") == "" && attribute(element, "aria-hidden") == "" {
			t.Error("a picture without a description")
		}
	}
}

// Every link of the page leads to a view, even if the page has another base path.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"/", "/ui/"} {
		page := newPage(uitest.New(60), base)
		seen := map[string]bool{}
		queue := []string{base}
		for len(queue) > 0 && len(seen) < 300 {
			path := queue[0]
			queue = queue[1:]
			if seen[path] {
				continue
			}
			seen[path] = true
			status, text := get(t, page, path)
			if status != http.StatusOK {
				t.Fatalf("%s: status %d", path, status)
			}
			if strings.Contains(path, "/static/") {
				continue
			}
			for _, element := range nodes(t, text) {
				for _, name := range []string{"href", "src", "hx-get"} {
					switch link := attribute(element, name); {
					case strings.HasPrefix(link, "?"):
						queue = append(queue, base+link)
					case strings.HasPrefix(link, "/"):
						if !strings.HasPrefix(link, base) {
							t.Errorf("%s: link %q", path, link)
						}
						queue = append(queue, link)
					}
				}
			}
		}
		if len(seen) < 50 {
			t.Errorf("only %d pages", len(seen))
		}
	}
}

// The page has the information that a user needs.
func TestContent(t *testing.T) {
	t.Parallel()
	page := newPage(uitest.New(40), "/")
	for path, want := range map[string][]string{
		"/": {"35 alike", "prod-004", "Stalled", "cannot pull", "kubectl helmop describe ingress -n fleet --cluster prod-004",
			"5 Unreachable", "HelmOp revision 7 Progressing in wave canary"},
		"/?state=Unhealthy":    {"prod-002", "prod-003", "Show all"},
		"/?wave=canary":        {"2 alike"},
		"/?selector=!!":        {"is not valid"},
		"/helmop/fleet/calico": {"1 done, 1 soaking", "in 6m", "0 of 3 used", "the rollout pauses", "19 not updated", "37 alike"},
		"/cluster/fleet/prod-005": {"Upgrade to v1.36.0", "HelmOp cloud-controller", "in 28m", "change-board", "ticket 4711",
			"v1.35.2"},
		"/release/fleet/" + apiutil.ChildName("ingress", "prod-004"): {
			"kubectl helmop retry ingress -n fleet --cluster prod-004", "/data/proxy-body-size",
			"kubectl-edit", "ingress-smoke", "UpgradeFailed", "3 to 4", "Deployment"},
		"/versions": {"3.30.1", "3.30.2", "canary-1, canary-2", "not installed"},
	} {
		if path == "/versions" {
			want = want[:3]
		}
		_, text := get(t, page, path)
		for _, part := range want {
			if !strings.Contains(html.UnescapeString(text), part) {
				t.Errorf("%s: %q is missing", path, part)
			}
		}
	}
}

// A renewal gets the content without the rest of the page.
func TestFragment(t *testing.T) {
	t.Parallel()
	source := uitest.New(40)
	source.Warn("Clusters may not be current")
	_, text := get(t, newPage(source, "/"), "/", "HX-Request")
	if strings.Contains(text, "<html") || strings.Contains(text, "<main") || !strings.Contains(text, "<h1>") ||
		!strings.Contains(text, "may not be current") {
		t.Errorf("%.300s", text)
	}
}

// hostile are texts that a workload cluster, a registry or a user may write.
var hostile = []string{
	"<script>alert(1)</script>", "\" onmouseover=\"alert(1)", "'><img src=x onerror=alert(1)>", "javascript:alert(1)",
	"</title><svg/onload=alert(1)>", "{{.Title}}", "\u202e\u0000\x1b[31mred", "]]><!--", "%3Cscript%3E", "&lt;script&gt;",
}

func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		source := uitest.New(8)
		source.Warn(text)
		source.Change("ingress", "prod-004", func(r *addonsv1.HelmOpRelease) {
			for i := range r.Status.Conditions {
				c := &r.Status.Conditions[i]
				c.Message, c.Reason = text, text
			}
			r.Status.LastError, r.Status.Release.Chart, r.Status.Release.Version = text, text, text
			r.Status.Release.Status = text
			r.Spec.Release.Name, r.Spec.Artifact.Version = text, text
			r.Status.History[0].Reason, r.Status.History[0].ChartVersion, r.Status.History[0].Action = text, text, text
			r.Status.Tests[0].Name, r.Status.Tests[0].Phase = text, text
			r.Status.Drift.Objects[0] = addonsv1.DriftedObject{Kind: text, Name: text, Namespace: text, Manager: text,
				Paths: []string{text}}
			r.Status.Inventory.Kinds = []addonsv1.InventoryKind{{Kind: text, Objects: []string{text}}}
		})
		source.ChangeHelmOp("calico", func(h *addonsv1.HelmOp) {
			h.Status.Rollout.WaitingFor, h.Spec.Source.URL = text, text
			h.Status.Artifact.Version, h.Status.Artifact.Digest = text, text
			h.Status.Failures = []addonsv1.ClusterFailure{{Cluster: text, Reason: text, Message: text}}
			h.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: text, Message: text}}
			h.Spec.Rollout.Waves[0].Name = text
		})
		page := newPage(source, "/")
		for _, path := range append(views(), "?helmop="+strings.ReplaceAll(strings.ReplaceAll(
			http.CanonicalHeaderKey(text), "%", "%25"), "&", "%26")) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.URL.Path, r.URL.RawQuery, _ = strings.Cut("/"+path, "?")
			w := httptest.NewRecorder()
			page.ServeHTTP(w, r)
			ids := map[string]bool{}
			for _, element := range nodes(t, w.Body.String()) {
				if element.Data == "img" || element.Data == "script" && attribute(element, "src") == "" {
					t.Errorf("%s: %q becomes <%s>", path, text, element.Data)
				}
				checkElement(t, element, ids)
			}
		}
	}
}

// TestDeletedHelmOp checks that the view of a HelmOp under deletion does not show the rollout from before.
func TestDeletedHelmOp(t *testing.T) {
	t.Parallel()
	const rollout = `id="rollout"`
	source := uitest.New(8)
	if _, text := get(t, newPage(source, "/"), "/helmop/fleet/calico"); !strings.Contains(text, rollout) {
		t.Error("the view does not show the rollout")
	}
	source.ChangeHelmOp("calico", fleettest.Deleting)
	if _, text := get(t, newPage(source, "/"), "/helmop/fleet/calico"); strings.Contains(text, rollout) {
		t.Error("the view shows the rollout of a HelmOp under deletion")
	}
}

// A path that begins with two slashes must not become the address of another host.
func TestSelf(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL.Path = "//evil.example.com/x"
	w := httptest.NewRecorder()
	newPage(uitest.New(8), "/").ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), `"//evil`) || strings.HasPrefix(w.Header().Get("Location"), "//") {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

func TestOnlyGET(t *testing.T) {
	t.Parallel()
	page := newPage(uitest.New(8), "/")
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d", method, w.Code)
		}
	}
}

// The third-party scripts are identical to those in the published packages.
func TestVendoredScripts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"htmx.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717", // htmx.org 2.0.11
		"sse.min.js":  "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136", // htmx-ext-sse 2.2.4
	} {
		data, err := os.ReadFile(filepath.Join("static", name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: SHA-256 %s, want %s", name, got, want)
		}
		status, served := get(t, newPage(uitest.New(8), "/"), "/static/"+name)
		if status != http.StatusOK || served != string(data) {
			t.Errorf("%s is not served: status %d", name, status)
		}
	}
}

// A stream reports changes, and the text for screen readers when the numbers change.
func TestStream(t *testing.T) {
	t.Parallel()
	source := uitest.New(8)
	server := httptest.NewServer(newPage(source, "/"))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func() (int, http.Header, io.Reader) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp.StatusCode, resp.Header, resp.Body
	}
	_, header, body := open()
	if got := header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type: %s", got)
	}
	lines := bufio.NewScanner(body)
	until := func(text string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == text {
				return
			}
		}
		t.Fatalf("no line %q: %v", text, lines.Err())
	}
	until(": the fleet is followed")
	source.Change("cert-manager", "prod-001", func(r *addonsv1.HelmOpRelease) {
		r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionFalse, "UpgradeFailed"
	})
	until("event: change")
	until("event: say")
	if !lines.Scan() || lines.Text() != "data: 40 releases, 8 unhealthy, 1 HelmOp needs you" {
		t.Errorf("says %q", lines.Text())
	}
	open()
	if status, header, _ := open(); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("a stream too many: status %d", status)
	}
}

// failing is a source without objects.
type failing struct{ *uitest.Source }

func (failing) World(context.Context) (*fleetview.World, string, error) {
	return nil, "", fmt.Errorf("the cache is <empty>")
}

func TestSourceFails(t *testing.T) {
	t.Parallel()
	status, text := get(t, newPage(failing{uitest.New(8)}, "/"), "/")
	if status != http.StatusBadGateway || !strings.Contains(text, "the cache is &lt;empty&gt;") {
		t.Errorf("%d %s", status, text)
	}
}

// 1,000 Clusters with 5 HelmOps each make small pages: alike Clusters share a line, and others are on several pages.
func TestLargeFleetIsSmall(t *testing.T) {
	t.Parallel()
	source := uitest.New(1000)
	_, text := get(t, newPage(source, "/"), "/")
	if len(text) > 64<<10 || !strings.Contains(text, "995 alike") {
		t.Errorf("%d bytes", len(text))
	}
	for number := range 900 {
		source.Change("ingress", fmt.Sprintf("prod-%03d", number+1), func(r *addonsv1.HelmOpRelease) {
			r.Status.Release.Version = fmt.Sprintf("4.%d.0", number)
		})
	}
	_, text = get(t, newPage(source, "/"), "/?page=2")
	if len(text) > 128<<10 || !strings.Contains(text, "Lines 51 to 100 of") {
		t.Errorf("different versions: %d bytes", len(text))
	}
}

// BenchmarkFleet shows 5,000 releases: with a new page, which computes their states, and again without a change.
func BenchmarkFleet(b *testing.B) {
	source := uitest.New(1000)
	page := newPage(source, "/")
	for name, path := range map[string]string{"fleet": "/", "rollout": "/helmop/fleet/calico",
		"release": "/release/fleet/" + apiutil.ChildName("ingress", "prod-004")} {
		for _, change := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/change=%t", name, change), func(b *testing.B) {
				size := 0
				for b.Loop() {
					if change {
						page = newPage(source, "/")
					}
					_, text := get(b, page, path)
					size = len(text)
				}
				b.ReportMetric(float64(size), "bytes/page")
			})
		}
	}
}
