// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
)

// openPath is the path of the link that opens the page.
const openPath = "/open"

// Local protects a page on a loopback address of this machine. Each program and each web page on the machine can send
// requests to this address:
//
//   - The header Host must be the address. So an attacker cannot use a name that resolves to the address (DNS
//     rebinding).
//   - A request needs the cookie. A browser gets the cookie in exchange for the link. The link works once.
//   - Requests of other web pages are refused, including pages on other ports of this machine: cookies do not
//     distinguish ports.
type Local struct {
	next   http.Handler
	hosts  [2]string
	token  string
	cookie http.Cookie
	opened atomic.Bool
}

// NewLocal protects a handler on 127.0.0.1 with a port.
func NewLocal(next http.Handler, port int) *Local {
	number := strconv.Itoa(port)
	return &Local{
		next:  next,
		hosts: [2]string{net.JoinHostPort("127.0.0.1", number), net.JoinHostPort("localhost", number)},
		token: rand.Text(),
		cookie: http.Cookie{Name: "helmop-" + number, Value: rand.Text(), Path: "/", HttpOnly: true,
			SameSite: http.SameSiteStrictMode},
	}
}

// Link returns the address that opens the page once.
func (l *Local) Link() string {
	return fmt.Sprintf("http://%s%s?token=%s", l.hosts[0], openPath, l.token)
}

// ServeHTTP serves requests of the browser that opened the link.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	Guard(http.HandlerFunc(l.serve)).ServeHTTP(w, r)
}

func (l *Local) serve(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie(l.cookie.Name)
	isKnown := err == nil && isEqual(cookie.Value, l.cookie.Value)
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case r.Host != l.hosts[0] && r.Host != l.hosts[1]:
		http.Error(w, "The address of the page is http://"+l.hosts[0]+"/.", http.StatusForbidden)
	case r.URL.Path == openPath:
		l.open(w, r, isKnown)
	case site != "" && site != "none" && site != "same-origin":
		http.Error(w, "Another web page sent the request. Open the page in a tab of its own.", http.StatusForbidden)
	case !isKnown:
		http.Error(w, "Open the link that the command printed.", http.StatusUnauthorized)
	default:
		l.next.ServeHTTP(w, r)
	}
}

// welcome opens the page without the token in the address. A redirect would not work if the link was on another web
// page: the browser would treat the request as a request of that page, and would not send the cookie.
const welcome = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>HelmOp</title><meta http-equiv="refresh" content="0;url=/"></head>
<body><p><a href="/">Continue to the page</a></p></body></html>
`

// open sets the cookie for the first request with the token.
func (l *Local) open(w http.ResponseWriter, r *http.Request, isKnown bool) {
	switch {
	case !isEqual(r.URL.Query().Get("token"), l.token):
		http.Error(w, "The link is not valid. Open the link that the command printed.", http.StatusForbidden)
		return
	case isKnown:
	case !l.opened.CompareAndSwap(false, true):
		http.Error(w, "The link was used already. End the command, and start it again for a new link.",
			http.StatusForbidden)
		return
	default:
		http.SetCookie(w, &l.cookie)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprint(w, welcome)
}

func isEqual(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
