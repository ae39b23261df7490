// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// maxPassword is the maximum size of a password, in bytes.
const maxPassword = 64 << 10

// ReadPassword reads a password. The password is the whole input without the last line break.
func ReadPassword(in io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxPassword))
	return strings.TrimRight(string(data), "\r\n"), err
}

// ErrNoTerminal means that there is no terminal to prompt for a password.
var ErrNoTerminal = errors.New("standard input is not a terminal")

// PromptPassword reads a password from the terminal, which does not show it. If the context ends first, PromptPassword
// restores the terminal.
func PromptPassword(ctx context.Context, streams genericiooptions.IOStreams, prompt string) ([]byte, error) {
	file, ok := streams.In.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, ErrNoTerminal
	}
	if err := ctx.Err(); err != nil {
		return nil, err // Otherwise the echo could be restored before it is switched off.
	}
	terminal := int(file.Fd())
	before, err := term.GetState(terminal)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprint(streams.ErrOut, prompt)
	defer func() { _, _ = fmt.Fprintln(streams.ErrOut) }()
	var password []byte
	done := make(chan error, 1)
	go func() {
		var err error
		password, err = term.ReadPassword(terminal)
		done <- err
	}()
	select {
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), term.Restore(terminal, before))
	case err := <-done:
		return password, err
	}
}
