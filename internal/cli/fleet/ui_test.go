// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// uiLink finds the link in the output of the command.
var uiLink = regexp.MustCompile(`http://127\.0\.0\.1:\d+/open\?token=\S+`)

// openedPage is a page that the command serves, in a browser with the cookie.
type openedPage struct {
	*testing.T
	client *http.Client
	base   string
	end    func() error
	errOut *lockedBuffer
}

// openPage runs the command and opens its link.
func (b *fleetBed) openPage(kubeconfig string, args ...string) *openedPage {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var out lockedBuffer
	p := &openedPage{T: b.T, errOut: &lockedBuffer{}}
	ended := make(chan error, 1)
	go func() {
		ended <- b.execute(ctx, kubeconfig, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out,
			ErrOut: p.errOut}, append([]string{"ui"}, args...)...)
	}()
	p.end = func() error {
		cancel()
		return <-ended
	}
	eventually(b.T, &out, "Ctrl-C ends the page")
	link := uiLink.FindString(out.String())
	p.base, _, _ = strings.Cut(link, "/open")
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	p.client = &http.Client{Jar: jar, Timeout: time.Minute}
	if text := p.get(strings.TrimPrefix(link, p.base)); !strings.Contains(text, "Continue") {
		b.Fatalf("the link: %s", text)
	}
	return p
}

// get returns the text of a path of the page.
func (p *openedPage) get(path string) string {
	p.Helper()
	resp, err := p.client.Get(p.base + path)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	return string(data)
}

// TestUI opens the page of a fleet, and changes a release.
func TestUI(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "ui")
	p := b.openPage(b.kubeconfig)
	for path, want := range map[string][]string{
		"/": {"prod-4", "Stalled", "3 alike", "namespace " + b.namespace, "helmop rollout promote calico"},
		"/release/" + b.namespace + "/" + apiutil.ChildName("calico", "prod-4"): {"the hook timed out", "has failed",
			"/data/mtu", "helmop retry calico", "--kubeconfig=" + b.kubeconfig},
		"/helmop/" + b.namespace + "/calico":  {"canary", "RolloutStarted", "the failure budget is spent"},
		"/cluster/" + b.namespace + "/prod-1": {"No HelmOp and no annotation holds the Cluster", "ingress"},
		"/versions":                           {"3.30.2", "canary-1"},
	} {
		text := p.get(path)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing", path, part)
			}
		}
	}
	resp, err := p.client.Get(p.base + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b.setStatus("prod-5", ready("3.99.0", 0))
	gomega.NewWithT(t).Eventually(func() string { return p.get("/versions") }, 2*time.Minute, 10*time.Millisecond).
		Should(gomega.ContainSubstring("3.99.0"))
	// A change is shown within moments, and the stream says so.
	stream := bufio.NewReader(resp.Body)
	for line := ""; line != "event: change\n"; {
		if line, err = stream.ReadString('\n'); err != nil {
			t.Fatalf("the stream ended before the change: %v", err)
		}
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	// The stream must end with the command.
	_, _ = io.Copy(io.Discard, stream)
}

// TestUIErrors checks errors that occur before the page is served.
func TestUIErrors(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "ui-errors")
	if got := b.run("ui", "--port=70000"); !errors.Is(got.err, kube.ErrUsage) {
		t.Errorf("%+v", got)
	}
	stranger, err := sharedServer.Server(t).UserKubeconfig("ui-stranger")
	if err != nil {
		t.Fatal(err)
	}
	got := b.runAs(t.Context(), writeFile(t, stranger), "", "ui")
	if got.err == nil || !apierrors.IsForbidden(got.err) || got.out != "" {
		t.Errorf("%+v", got)
	}
	p := b.openPage(b.kubeconfig, "-A")
	_, port, _ := strings.Cut(strings.TrimPrefix(p.base, "http://"), ":")
	if got := b.run("ui", "--port="+port); got.err == nil || !strings.Contains(got.err.Error(), "set another --port") {
		t.Errorf("%+v", got)
	}
	if text := p.get("/"); !strings.Contains(text, "all namespaces") || !strings.Contains(text, b.namespace+"/calico") {
		t.Error("not all namespaces")
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}
