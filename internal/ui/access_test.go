// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const testPort = 4711

// hidden is a text that is only on the page.
const hidden = "the fleet"

func newTestLocal() *Local {
	return NewLocal(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(hidden))
	}), testPort)
}

// send sends a request as a browser does.
func send(l http.Handler, method, target string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:4711"
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w
}

// cookieOf opens the link, and returns the header with the cookie.
func cookieOf(t *testing.T, l *Local) string {
	t.Helper()
	resp := send(l, http.MethodGet, l.Link(), nil)
	c, err := http.ParseSetCookie(resp.Header().Get("Set-Cookie"))
	if resp.Code != http.StatusOK || err != nil {
		t.Fatalf("the link: %d, %v", resp.Code, err)
	}
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 0 || !c.Expires.IsZero() {
		t.Errorf("cookie: %s", c.Raw)
	}
	if strings.Contains(resp.Body.String(), c.Value) || strings.Contains(l.Link(), c.Value) {
		t.Error("the cookie can be read in the page or in the link")
	}
	return c.Name + "=" + c.Value
}

func TestLocal(t *testing.T) {
	t.Parallel()
	l := newTestLocal()
	cookie := cookieOf(t, l)
	for name, tc := range map[string]struct {
		method, path string
		headers      map[string]string
		want         int
	}{
		"page":                        {path: "/", headers: map[string]string{"Cookie": cookie}, want: 200},
		"page by name":                {path: "/", headers: map[string]string{"Cookie": cookie, "Host": "localhost:4711"}, want: 200},
		"page of this page":           {path: "/", headers: map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}, want: 200},
		"address typed":               {path: "/", headers: map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "none"}, want: 200},
		"no cookie":                   {path: "/", want: 401},
		"no cookie, style sheet":      {path: "/static/style.css", want: 401},
		"wrong cookie":                {path: "/", headers: map[string]string{"Cookie": cookie + "x"}, want: 401},
		"cookie of another port":      {path: "/", headers: map[string]string{"Cookie": "helmop-1=" + cookie}, want: 401},
		"rebound name":                {path: "/", headers: map[string]string{"Cookie": cookie, "Host": "evil.example.com:4711"}, want: 403},
		"rebound name, link":          {path: "/open?token=" + l.token, headers: map[string]string{"Host": "evil.example.com"}, want: 403},
		"other port":                  {path: "/", headers: map[string]string{"Cookie": cookie, "Host": "127.0.0.1:80"}, want: 403},
		"another web page":            {path: "/", headers: map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}, want: 403},
		"page of another port":        {path: "/", headers: map[string]string{"Cookie": cookie, "Sec-Fetch-Site": "same-site"}, want: 403},
		"link again":                  {path: "/open?token=" + l.token, want: 403},
		"link again, same browser":    {path: "/open?token=" + l.token, headers: map[string]string{"Cookie": cookie}, want: 200},
		"wrong token":                 {path: "/open?token=wrong", want: 403},
		"no token":                    {path: "/open", want: 403},
		"token for another page":      {path: "/?token=" + l.token, want: 401},
		"POST":                        {method: "POST", path: "/", headers: map[string]string{"Cookie": cookie}, want: 405},
		"HEAD":                        {method: "HEAD", path: "/", headers: map[string]string{"Cookie": cookie}, want: 405},
		"DELETE without cookie":       {method: "DELETE", path: "/", want: 405},
		"OPTIONS of another web page": {method: "OPTIONS", path: "/", headers: map[string]string{"Origin": "https://evil.example.com"}, want: 405},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.method == "" {
				tc.method = http.MethodGet
			}
			resp := send(l, tc.method, tc.path, tc.headers)
			if resp.Code != tc.want {
				t.Errorf("%d, want %d", resp.Code, tc.want)
			}
			if got := strings.Contains(resp.Body.String(), hidden); got != (tc.want == 200 && tc.path == "/") {
				t.Errorf("shows the page: %t", got)
			}
			if tc.want == 405 && resp.Header().Get("Allow") != "GET" {
				t.Errorf("Allow: %q", resp.Header().Get("Allow"))
			}
			checkHeaders(t, resp.Header())
		})
	}
}

// checkHeaders checks the headers that each response has.
func checkHeaders(t *testing.T, header http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cache-Control": "no-store", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name := range header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s is set", name)
		}
	}
	for _, forbidden := range []string{"unsafe-", "data:", "*", "http"} {
		if strings.Contains(policy, forbidden) {
			t.Errorf("the policy allows %q", forbidden)
		}
	}
}

// Only one of several browsers gets the cookie.
func TestLinkWorksOnce(t *testing.T) {
	t.Parallel()
	l := newTestLocal()
	cookies := make(chan int)
	for range 8 {
		go func() { cookies <- len(send(l, http.MethodGet, l.Link(), nil).Header().Values("Set-Cookie")) }()
	}
	total := 0
	for range 8 {
		total += <-cookies
	}
	if total != 1 {
		t.Errorf("%d browsers got the cookie", total)
	}
	if l.Link() == newTestLocal().Link() {
		t.Error("two commands have the same token")
	}
}
