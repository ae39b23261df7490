// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser drives a headless Chromium, for tests and pictures of pages. It speaks the Chrome DevTools Protocol
// through a pair of pipes, so it needs no other module and no port.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Variable is the environment variable with the path of the browser. Without it, PATH is searched.
const Variable = "CHROMIUM"

// ErrNone is the error of Find on a machine without a browser.
var ErrNone = errors.New("no headless browser: install chromium or chromium-headless-shell, or set " + Variable +
	" to the path of one")

// Find returns the path of a browser.
func Find() (string, error) {
	if path := os.Getenv(Variable); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome", "chromium-browser", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNone
}

// Tab is a tab of a running browser. Its methods must not be called concurrently.
type Tab struct {
	command *exec.Cmd
	profile string
	to      io.WriteCloser
	session string
	number  int

	// mutex guards the fields below, and changed is signalled when one of them changes.
	mutex   sync.Mutex
	changed chan struct{}
	results map[int]message
	console []string
	ended   error
}

// message is a command, a result or an event of the protocol.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts a browser with an empty profile, and opens a tab. The browser ends with the context.
func Start(ctx context.Context, path string) (*Tab, error) {
	profile, err := os.MkdirTemp("", "browser")
	if err != nil {
		return nil, err
	}
	fromTab, toBrowser, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromBrowser, toTab, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, path, "--headless", "--remote-debugging-pipe", "--no-first-run",
		"--user-data-dir="+profile, "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--font-render-hinting=none", "--force-color-profile=srgb",
		// The pages of the tests are trusted, and containers have no user namespaces for the sandbox.
		"--no-sandbox", "--no-zygote")
	// The browser reads commands from descriptor 3 and writes to descriptor 4.
	command.ExtraFiles = []*os.File{fromTab, toTab}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the browser: %w", err)
	}
	// An error would mean that the descriptors are closed already.
	_, _ = fromTab.Close(), toTab.Close()
	t := &Tab{command: command, profile: profile, to: toBrowser, results: map[int]message{}, changed: make(chan struct{})}
	go t.read(fromBrowser)
	if err := t.attach(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// attach opens the tab.
func (t *Tab) attach(ctx context.Context) error {
	var target struct {
		ID string `json:"targetId"`
	}
	if err := t.call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct {
		Session string `json:"sessionId"`
	}
	if err := t.call(ctx, "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true},
		&attached); err != nil {
		return err
	}
	t.session = attached.Session
	for _, domain := range []string{"Page.enable", "Runtime.enable", "Log.enable"} {
		if err := t.call(ctx, domain, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

const (
	// closeTimeout is how long the browser may take to end by itself.
	closeTimeout = 5 * time.Second

	// removeTimeout is how long the last processes of the browser may take to release the profile.
	removeTimeout = 10 * time.Second
)

// Close ends the browser and removes the profile.
func (t *Tab) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = t.command.Process.Kill() })
	defer stop()
	t.session = ""
	// The browser may have ended already, or it ends before it answers. The exit code has no meaning.
	_ = t.call(ctx, "Browser.close", nil, nil)
	_ = t.to.Close()
	_ = t.command.Wait()
	for deadline := time.Now().Add(removeTimeout); ; time.Sleep(50 * time.Millisecond) {
		if err := os.RemoveAll(t.profile); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// read receives messages until the browser ends.
func (t *Tab) read(from io.Reader) {
	reader := bufio.NewReader(from)
	for {
		data, err := reader.ReadBytes(0)
		if err != nil {
			t.update(func() { t.ended = fmt.Errorf("the browser ended: %w", err) })
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &m) == nil {
			t.update(func() { t.receive(m) })
		}
	}
}

func (t *Tab) update(change func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// receive handles a message. The caller holds the mutex.
func (t *Tab) receive(m message) {
	switch m.Method {
	case "":
		t.results[m.ID] = m
	case "Log.entryAdded":
		var event struct {
			Entry struct{ Level, Text, URL string }
		}
		if json.Unmarshal(m.Params, &event) == nil && event.Entry.Level == "error" {
			t.console = append(t.console, event.Entry.Text+" "+event.Entry.URL)
		}
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
		var event struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(m.Params, &event) == nil && (event.Type == "" || event.Type == "error") {
			t.console = append(t.console, string(m.Params))
		}
	}
}

// wait waits until a condition is true. The condition is called with the mutex held.
func (t *Tab) wait(ctx context.Context, isMet func() bool) error {
	for {
		t.mutex.Lock()
		met, ended, changed := isMet(), t.ended, t.changed
		t.mutex.Unlock()
		switch {
		case met:
			return nil
		case ended != nil:
			return ended
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// call sends a command and waits for its result.
func (t *Tab) call(ctx context.Context, method string, params, result any) error {
	t.number++
	number := t.number
	m := message{ID: number, Method: method, Session: t.session}
	if params != nil {
		data, err := json.Marshal(params)
		if err != nil {
			return err
		}
		m.Params = data
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := t.to.Write(append(data, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var answer message
	err = t.wait(ctx, func() (ok bool) {
		answer, ok = t.results[number]
		delete(t.results, number)
		return ok
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", method, err)
	case answer.Error != nil:
		return fmt.Errorf("%s: %s", method, answer.Error.Message)
	case result != nil:
		return json.Unmarshal(answer.Result, result)
	default:
		return nil
	}
}

// pollInterval is how often Until evaluates a condition.
const pollInterval = 20 * time.Millisecond

// Until waits until an expression is true in the page. It works in pages whose scripts are forbidden, too.
func (t *Tab) Until(ctx context.Context, condition string) error {
	for {
		var met bool
		// While a page replaces another one, an expression has no page.
		if err := t.Eval(ctx, condition, &met); err == nil && met {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", condition, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// Open opens an address and waits until the page is loaded.
func (t *Tab) Open(ctx context.Context, url string) error {
	var result struct {
		Error string `json:"errorText"`
	}
	// It returns when the browser shows the new page.
	if err := t.call(ctx, "Page.navigate", map[string]any{"url": url}, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return fmt.Errorf("opening %s: %s", url, result.Error)
	}
	return t.Until(ctx, `document.readyState === "complete"`)
}

// Eval evaluates an expression in the page. The result must have the form of JSON.
func (t *Tab) Eval(ctx context.Context, expression string, result any) error {
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	err := t.call(ctx, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true,
		"awaitPromise": true}, &answer)
	switch {
	case err != nil:
		return err
	case answer.Exception != nil:
		return fmt.Errorf("%s: %s", expression, answer.Exception.Text)
	case result == nil || len(answer.Result.Value) == 0:
		return nil
	default:
		return json.Unmarshal(answer.Result.Value, result)
	}
}

// Look sets the size of the window and the color scheme that the user prefers.
func (t *Tab) Look(ctx context.Context, width, height int, dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	return errors.Join(
		t.call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
			"deviceScaleFactor": 1, "mobile": false}, nil),
		t.call(ctx, "Emulation.setEmulatedMedia", map[string]any{
			"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil))
}

// Script allows or forbids scripts in the pages that are opened next.
func (t *Tab) Script(ctx context.Context, allowed bool) error {
	return t.call(ctx, "Emulation.setScriptExecutionDisabled", map[string]any{"value": !allowed}, nil)
}

// Press presses a key: Tab or Enter.
func (t *Tab) Press(ctx context.Context, key string) error {
	code, text := 9, ""
	if key == "Enter" {
		code, text = 13, "\r"
	}
	press := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
	release := map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}
	return errors.Join(t.call(ctx, "Input.dispatchKeyEvent", press, nil),
		t.call(ctx, "Input.dispatchKeyEvent", release, nil))
}

// Screenshot returns a picture of the window as PNG.
func (t *Tab) Screenshot(ctx context.Context) ([]byte, error) {
	var answer struct {
		Data string `json:"data"`
	}
	if err := t.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &answer); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(answer.Data)
}

// Errors returns the errors in the console since the start: exceptions of scripts, refused requests and violations of
// the Content-Security-Policy.
func (t *Tab) Errors() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return strings.Join(t.console, "\n")
}
