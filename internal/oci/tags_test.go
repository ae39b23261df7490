// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

func TestTagChoice(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, within, filter string
		tags                 []string
		want                 string
	}{
		{name: "highest", within: "*", tags: []string{"1.2.0", "1.10.0", "1.9.0"}, want: "1.10.0"},
		{name: "with v", within: "^1", tags: []string{"1.0.0", "v1.1.0", "2.0.0"}, want: "v1.1.0"},
		{name: "build metadata", within: "=1.0.0", tags: []string{"1.0.0_b1"}, want: "1.0.0_b1"},
		{name: "equal precedence", within: "*", tags: []string{"1.0.0_b1", "1.0.0_b2", "1.0.0"}, want: "1.0.0_b2"},
		{name: "no pre-releases", within: "^1", tags: []string{"1.0.0", "1.1.0-rc.1"}, want: "1.0.0"},
		{name: "pre-releases asked for", within: "^1-0", tags: []string{"1.0.0", "1.1.0-rc.1"}, want: "1.1.0-rc.1"},
		{name: "no aliases and dates", within: "*", tags: []string{"1.0.0", "2", "2.1", "20260101", "latest"}, want: "1.0.0"},
		{name: "no attachments", within: "*-0",
			tags: []string{"1.0.0", "9.0.0.sig", "9.0.0-x.att", "9.0.0-x.sbom", "sha256-9.0.0", "sha256-abc.sig"},
			want: "1.0.0"},
		{name: "none", within: "^2", tags: []string{"1.0.0"}},
		{name: "no tags", within: "*"},
		{name: "nonsense", within: "*", tags: []string{"", "\n", "1.0.0\n", strings.Repeat("1", 500)}},

		{name: "filtered range", within: "^1", filter: "-alpine$", tags: []string{"1.0.0-alpine", "1.1.0", "2.0.0-alpine"}},
		{name: "filtered range of pre-releases", within: "^1-0", filter: "-alpine$",
			tags: []string{"1.0.0-alpine", "1.1.0", "2.0.0-alpine"}, want: "1.0.0-alpine"},
		{name: "filter sees tags as listed", within: "^1", filter: `_b\d$`, tags: []string{"1.0.0_b1", "1.1.0"},
			want: "1.0.0_b1"},
		{name: "filter is not anchored", within: "*", filter: "0", tags: []string{"1.0.1", "1.1.1"}, want: "1.0.1"},

		{name: "counter", filter: `^main-\d+$`, tags: []string{"main-9", "main-10", "main-1", "main-10-x", "dev-11"},
			want: "main-10"},
		{name: "timestamps", filter: "^2026", tags: []string{"20260101T000000", "20260101T000001", "20251231T235959"},
			want: "20260101T000001"},
		{name: "dates with leading zeros", filter: ".", tags: []string{"2026.01.09", "2026.01.10", "2025.12.31"},
			want: "2026.01.10"},
		{name: "dates with times", filter: ".", tags: []string{"2026.01.09-0930", "2026.01.09-1530", "2026.01.09-0005"},
			want: "2026.01.09-1530"},
		{name: "dates are no versions in a range", within: "*", tags: []string{"2026.01.10", "2025.12.31"},
			want: "2025.12.31"},
		{name: "commit and timestamp", filter: `^main-ab12-\d+$`,
			tags: []string{"main-ab12-1700000000", "main-ab12-999999999"}, want: "main-ab12-1700000000"},
		{name: "versions before aliases", filter: ".", tags: []string{"latest", "1.2.0", "1.10.0", "9", "20260101"},
			want: "1.10.0"},
		{name: "releases before pre-releases", filter: ".", tags: []string{"2.0.0-rc.1", "1.0.0"}, want: "1.0.0"},
		{name: "pre-releases where nothing else matches", filter: "-rc",
			tags: []string{"2.0.0-rc.2", "2.0.0-rc.10", "1.0.0", "x-rc"}, want: "2.0.0-rc.10"},
		{name: "with and without v", filter: ".", tags: []string{"v1.0.0", "1.0.0"}, want: "v1.0.0"},
		{name: "build metadata without a range", filter: ".", tags: []string{"1.0.0_2", "1.0.0_1"}, want: "1.0.0_2"},
		{name: "equal numbers", filter: ".", tags: []string{"main-1", "main-01"}, want: "main-1"},
		{name: "no attachments without a range", filter: ".",
			tags: []string{"x", "z.sig", "z.att", "z.sbom", "sha256-ff", "sha512-ff"}, want: "x"},
		{name: "filter that asks for attachments", filter: "sig$", tags: []string{"sha256-ff.sig"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			// The order of the list must not affect the result.
			for range 2 {
				choice, err := newTagChoice(Reference{Semver: tc.within, TagFilter: tc.filter})
				if err != nil {
					t.Fatal(err)
				}
				for _, tag := range tc.tags {
					choice.consider(tag)
				}
				if choice.tag != tc.want {
					t.Errorf("chose %q of %q, want %q", choice.tag, tc.tags, tc.want)
				}
				slices.Reverse(tc.tags)
			}
		})
	}
}

// TestTagVersion checks that each tag that counts as a version in the order of tags has a version.
func TestTagVersion(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "1.2.3_b4": "1.2.3+b4", "9.01.0": "9.1.0", "v9.01.0_b4": "9.1.0+b4",
		"2026.01.09-0930": "2026.1.9-930", "9.9.9_a_b": "9.9.9", "stable": "", "1.2": "", "20260101": "", "": "",
	} {
		if got := TagVersion(tag); got != want {
			t.Errorf("%q: got %q, want %q", tag, got, want)
		}
	}
}

func TestCompareNatural(t *testing.T) {
	t.Parallel()
	sorted := []string{"", "1", "9", "10", "99999999999999999999999999", "100000000000000000000000000", "A", "a", "a-9",
		"a-10", "a-10-1", "a-10b", "a1b2", "a1b10", "a02b1", "a10", "b"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := compareNatural(a, b); got != cmp.Compare(i, j) {
				t.Errorf("compareNatural(%q, %q) = %d, want %d", a, b, got, cmp.Compare(i, j))
			}
		}
	}
	if compareNatural("a-007", "a-7") != 0 || compareNatural("0", "00") != 0 {
		t.Error("leading zeros make a difference")
	}
}

func TestNoMatchingTagMessages(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, tag := range []string{"1.0.0", "2.0.0-rc.1", "main-1"} {
		r.push(tag, "x", []byte("x"))
	}
	c := newClient(t)
	for _, tc := range []struct {
		ref  Reference
		want string
	}{
		{Reference{Semver: "^2"}, "none of 3 tags is a version in the range; check the range; pre-releases"},
		{Reference{TagFilter: "^dev"}, "the tag filter matches none of 3 tags; check the filter"},
		{Reference{TagFilter: "^main", Semver: "^1"},
			"the tag filter matches 1 of 3 tags, and none of these is a version in the range"},
		{Reference{TagFilter: "^dev", Semver: "^1"}, "matches none of 3"},
	} {
		_, err := c.Resolve(t.Context(), r.source(tc.ref))
		if !errors.Is(err, ocierr.ErrNoMatchingTag) || !strings.Contains(fmt.Sprint(err), tc.want) {
			t.Errorf("error = %v, want ErrNoMatchingTag with %q", err, tc.want)
		}
	}
}

func TestResolveTagFilter(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.push("main-9", "0.0.9", []byte("9"))
	best := r.push("main-10", "0.0.10", []byte("10"))
	r.push("dev-11", "0.0.11", []byte("11"))
	got, err := newClient(t).Resolve(t.Context(), r.source(Reference{TagFilter: "^main-"}))
	if err != nil || got.Digest != best || got.Tag != "main-10" || got.Version != "0.0.10" {
		t.Errorf("artifact = %+v, %v", got, err)
	}
	// The tag is not a version, so the config blob is read for the version.
	r.wantRequests(map[string]int{"GET tags": 1, "HEAD manifest": 1, "GET manifest": 1, "GET blob": 1})
}

// manyTags returns tags as in a busy repository: versions with pre-releases and build metadata, builds of branches, and
// signatures.
func manyTags(n int) []string {
	tags := make([]string, 0, n)
	for i := range n {
		switch i % 5 {
		case 0:
			tags = append(tags, fmt.Sprintf("v1.%d.%d", i/100, i%100))
		case 1:
			tags = append(tags, fmt.Sprintf("1.%d.%d-rc.%d", i/100, i%100, i))
		case 2:
			tags = append(tags, fmt.Sprintf("main-%d", i))
		case 3:
			tags = append(tags, fmt.Sprintf("sha256-%064x.sig", i))
		default:
			tags = append(tags, fmt.Sprintf("1.%d.%d_build.%d", i/100, i%100, i))
		}
	}
	return tags
}

func TestResolveAmongTenThousandTags(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.tags = manyTags(10_000)
	r.push("v1.99.96", "1.99.96", []byte("highest of manyTags is 1.99.99_build.9999"))
	best := r.push("v1.100.0", "1.100.0", []byte("best"))
	r.pageSize = 100
	c := newClient(t)
	got, err := c.Resolve(t.Context(), r.source(Reference{Semver: "^1"}))
	if err != nil || got.Digest != best {
		t.Errorf("artifact = %+v, %v", got, err)
	}
	r.wantRequests(map[string]int{"GET tags": 101, "HEAD manifest": 1, "GET manifest": 1})

	r.push("main-10000", "1", []byte("x"))
	r.pageSize = 0 // some registries send all tags in one page
	got, err = c.Resolve(t.Context(), r.source(Reference{TagFilter: `^main-\d+$`}))
	if err != nil || got.Tag != "main-10000" {
		t.Errorf("artifact = %+v, %v", got, err)
	}
	r.wantRequests(map[string]int{"GET tags": 1, "HEAD manifest": 1, "GET manifest": 1, "GET blob": 1})
}

func TestTagListFaults(t *testing.T) {
	t.Parallel()
	next := func(w http.ResponseWriter, target string) {
		w.Header().Set("Link", fmt.Sprintf("<%s>; rel=\"next\"", target))
	}
	for _, tc := range []struct {
		name string
		// serve handles the request for the page after the tag last.
		serve  func(w http.ResponseWriter, req *http.Request, last string)
		want   error
		detail string
		pages  int
	}{
		{name: "page that points to itself", want: ocierr.ErrUnexpected, detail: "form a loop", pages: 2,
			serve: func(w http.ResponseWriter, req *http.Request, _ string) {
				next(w, req.URL.Path)
				fmt.Fprint(w, `{"tags":["1.0.0","1.1.0"]}`)
			}},
		{name: "two pages that point to each other", want: ocierr.ErrUnexpected, detail: "form a loop", pages: 3,
			serve: func(w http.ResponseWriter, req *http.Request, last string) {
				if last == "" {
					next(w, req.URL.Path+"?last=x")
					fmt.Fprint(w, `{"tags":["1.0.0"]}`)
					return
				}
				next(w, req.URL.Path)
				fmt.Fprint(w, `{"tags":["2.0.0"]}`)
			}},
		{name: "endless empty pages", want: ocierr.ErrUnexpected, detail: "form a loop", pages: maxEmptyPages + 1,
			serve: func(w http.ResponseWriter, req *http.Request, _ string) {
				next(w, req.URL.Path)
				fmt.Fprint(w, `{"tags":null}`)
			}},
		{name: "endless new tags", want: ocierr.ErrTooLarge, detail: "more than 100000 tags", pages: 2,
			serve: func(w http.ResponseWriter, req *http.Request, last string) {
				next(w, req.URL.Path+"?last="+last+"x")
				tags := make([]string, maxTags/2+1)
				for i := range tags {
					tags[i] = fmt.Sprintf("%q", fmt.Sprintf("%s-%d", last, i))
				}
				fmt.Fprintf(w, `{"tags":[%s]}`, strings.Join(tags, ","))
			}},
		{name: "link to another host", want: ocierr.ErrUnexpected, pages: 1,
			serve: func(w http.ResponseWriter, _ *http.Request, _ string) {
				next(w, "https://planted.example/v2/x/tags/list")
				fmt.Fprint(w, `{"tags":["1.0.0"]}`)
			}},
		{name: "no JSON", want: ocierr.ErrUnexpected, pages: 1,
			serve: func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, "planted-text") }},
		{name: "JSON of another shape", want: ocierr.ErrUnexpected, pages: 1,
			serve: func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, `{"tags":{"planted-text":1}}`) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.intercept = func(w http.ResponseWriter, req *http.Request) bool {
				tc.serve(w, req, req.URL.Query().Get("last"))
				return true
			}
			_, err := newClient(t).Resolve(t.Context(), r.source(Reference{Semver: "*"}))
			if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.detail) {
				t.Fatalf("error = %v, want %v with %q", err, tc.want, tc.detail)
			}
			noSecrets(t, err)
			if strings.Contains(err.Error(), "planted") {
				t.Errorf("error holds what the registry wrote: %v", err)
			}
			r.wantRequests(map[string]int{"GET tags": tc.pages})
		})
	}
}

// TestSlowPagesOfTags checks that each page of a long list may take its time. A registry that stops within the list is
// an error.
func TestSlowPagesOfTags(t *testing.T) {
	t.Parallel()
	const limit = 1500 * time.Millisecond // On a busy machine, a page takes a second.
	r := newRegistry(t)
	r.pageSize = 1
	for i := range 8 {
		version := fmt.Sprintf("1.%d.0", i)
		r.push(version, version, []byte("x"))
	}
	var pages, hangAt atomic.Int32
	r.setIntercept(func(_ http.ResponseWriter, req *http.Request) bool {
		if transport.KindOf(req) != transport.RequestTags {
			return false
		}
		if pages.Add(1) == hangAt.Load() {
			hang(req)
			return true
		}
		slow := time.NewTimer(limit / 4)
		defer slow.Stop()
		<-slow.C
		return false
	})
	change := func(o *Options) { o.Timeout = limit }
	// All pages together take longer than this limit, too.
	patient := func(o *Options) { o.Timeout = 2 * limit }
	if got, err := newClient(t, patient).Resolve(t.Context(), r.source(Reference{Semver: "*"})); err != nil ||
		got.Tag != "1.7.0" {
		t.Errorf("artifact = %+v, %v", got, err)
	}
	pages.Store(0)
	hangAt.Store(1)
	start := time.Now()
	_, err := newClient(t, change).Resolve(t.Context(), r.source(Reference{Semver: "*"}))
	if took := time.Since(start); !errors.Is(err, ocierr.ErrUnreachable) || took > 10*limit {
		t.Errorf("error = %v after %s, want ErrUnreachable at the deadline of a page", err, took)
	}
	hangAt.Store(0)
	_, err = newClient(t, change, func(o *Options) { o.PullTimeout = limit }).Resolve(t.Context(),
		r.source(Reference{Semver: "*"}))
	if !errors.Is(err, ocierr.ErrUnreachable) {
		t.Errorf("error = %v, want ErrUnreachable at the deadline of the list", err)
	}
}

// TestResolveLargestPageOfTags checks the largest page of tags. It is larger than any other document of a registry.
func TestResolveLargestPageOfTags(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for i := range 60_000 {
		r.tags = append(r.tags, fmt.Sprintf("%0128d", i))
	}
	r.push("1.0.0", "1.0.0", []byte("x"))
	got, err := newClient(t).Resolve(t.Context(), r.source(Reference{Semver: "*"}))
	if err != nil || got.Tag != "1.0.0" {
		t.Errorf("artifact = %+v, %v", got, err)
	}
}

func BenchmarkTagChoice(b *testing.B) {
	tags := manyTags(10_000)
	for name, ref := range map[string]Reference{
		"semver":            {Semver: ">=1.50.0 <2"},
		"filter":            {TagFilter: `^main-\d+$`},
		"semver and filter": {Semver: ">=1.50.0-0 <2", TagFilter: `^\d.*-rc\.`},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				choice, err := newTagChoice(ref)
				if err != nil {
					b.Fatal(err)
				}
				for _, tag := range tags {
					choice.consider(tag)
				}
				if choice.tag == "" {
					b.Fatal("nothing was chosen")
				}
			}
		})
	}
}
