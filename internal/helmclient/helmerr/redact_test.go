// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRedactor(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"adminPassword": "hunter2",
		"region":        "north",
		"tls":           map[string]any{"privateKey": []any{"-----BEGIN", map[string]any{"pem": "abcdef"}}},
		"token":         "abc",
	}
	r := NewRedactor(values, nil)
	tests := map[string]struct{ text, want string }{
		"plain":               {"nothing to hide in north", "nothing to hide in north"},
		"sensitive key":       {"fail: hunter2 is weak", "fail: [redacted] is weak"},
		"below sensitive key": {"got abcdef", "got [redacted]"},
		"base64":              {"data " + base64.StdEncoding.EncodeToString([]byte("hunter2")), "data [redacted]"},
		"too short":           {"abc stays", "abc stays"},
		"invalid string": {`spec.x: Invalid value: "a \"b: c": must be an address`,
			`spec.x: Invalid value: [redacted]: must be an address`},
		"invalid object": {`spec: Invalid value: {"a":"b: c"}: field is immutable`,
			`spec: Invalid value: [redacted]: field is immutable`},
		"invalid pointer": {`spec: Invalid value: &v1.Spec{A:"b"}: immutable`,
			`spec: Invalid value: [redacted]: immutable`},
		"invalid number": {"spec.replicas: Invalid value: -1: must be positive",
			"spec.replicas: Invalid value: [redacted]: must be positive"},
		"unsupported": {`type: Unsupported value: "X": supported values: "A"`,
			`type: Unsupported value: [redacted]: supported values: "A"`},
		"yaml": {"cannot unmarshal !!str `geheim` into int", "cannot unmarshal !!str [redacted] into int"},
		"number parser": {`strconv.Atoi: parsing "geheim": invalid syntax`,
			`strconv.Atoi: parsing [redacted]: invalid syntax`},
		"lines": {"one\n  two\n", "one two"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := r.text(test.text); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	if got := (redactor{}).text(strings.Repeat("ä", maxMessageLength)); len(got) > maxMessageLength ||
		!utf8.ValidString(got) {
		t.Errorf("%d bytes, valid %t", len(got), utf8.ValidString(got))
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add("geheim123", `Invalid value: "`)
	f.Fuzz(func(t *testing.T, secret, text string) {
		if len(secret) < minSecretLength || strings.Contains("before "+Redacted+" after", secret) ||
			strings.TrimSpace(secret) != secret {
			t.Skip()
		}
		got := NewRedactor(map[string]any{"secret": secret}, nil).text("before " + secret + " after")
		if strings.Contains(got, secret) {
			t.Errorf("%q is left in %q", secret, got)
		}
		_ = redactor{}.text(text)
	})
}

func TestLogBuffer(t *testing.T) {
	t.Parallel()
	logs := &LogBuffer{Redactor: NewRedactor(map[string]any{"password": "hunter2"}, nil)}
	for i := range 2 * maxLogLines {
		logs.Printf("line %d with %s %s", i, "hunter2", strings.Repeat("x", maxLogLine))
		logs.Printf("line %d with %s %s", i, "hunter2", strings.Repeat("x", maxLogLine))
	}
	logs.Printf("list: failed to decode release: %v: %s", "entire secret", "why")
	lines := logs.Last()
	if len(lines) != maxLogLines {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > maxLogLine {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if text := fmt.Sprint(lines); strings.Contains(text, "hunter2") || strings.Contains(text, "entire secret") {
		t.Errorf("a value in %s", text)
	}
	if !strings.HasPrefix(lines[0], fmt.Sprintf("line %d ", maxLogLines+1)) {
		t.Errorf("the first line kept is %q", lines[0])
	}
}

func TestRedactorRemovesValuesFromSecrets(t *testing.T) {
	t.Parallel()
	r := NewRedactor(map[string]any{"greeting": "welcome"}, []any{map[string]any{
		"smtp": map[string]any{"pwd": "hunter2", "pin": int64(424242)}, "users": []any{"alice"},
	}})
	got := r.text("welcome alice: bad hunter2, bad 424242")
	if want := "welcome " + Redacted + ": bad " + Redacted + ", bad " + Redacted; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRedactorHidesSecretWithAnotherValueInIt has a value of a Secret that contains a value with a sensitive key.
func TestRedactorHidesSecretWithAnotherValueInIt(t *testing.T) {
	t.Parallel()
	const url = "postgres://appuser:Xk29fLq8@db/x"
	values := map[string]any{"auth": map[string]any{"username": "appuser"}}
	logs := &LogBuffer{Redactor: NewRedactor(values, []any{map[string]any{"database": map[string]any{"url": url}}})}
	logs.Hide(map[string]any{"token": "Xk29"})
	if got, want := logs.Text("dial "+url), "dial "+Redacted; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
