// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"
)

// Control sequences of terminals (ECMA-48, and the private modes of xterm).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	moveHome    = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// Terminal draws whole screens. Leave restores the previous content of the terminal.
type Terminal struct {
	to   io.Writer
	size func() (width, height int, err error)
}

// NewTerminal returns a terminal that writes to a writer.
func NewTerminal(to io.Writer, size func() (width, height int, err error)) *Terminal {
	return &Terminal{to: to, size: size}
}

// Terminal returns the terminal to which the command prints; nil if it prints to a file or a pipe.
func (b *Base) Terminal() *Terminal {
	out := b.Streams.Out
	if e, ok := out.(*escaped); ok {
		out = e.to
	}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return NewTerminal(file, func() (int, int, error) { return term.GetSize(int(file.Fd())) })
}

// Size returns the current columns and lines of the terminal; 80 and 24 if they are not known.
func (t *Terminal) Size() (width, height int) {
	width, height, err := t.size()
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return width, height
}

// Enter switches to the screen for drawing.
func (t *Terminal) Enter() error {
	_, err := io.WriteString(t.to, enterScreen)
	return err
}

// Draw replaces the screen with lines. The lines must fit into the screen. Control characters in them are shown as
// text.
func (t *Terminal) Draw(lines []string) error {
	var screen strings.Builder
	screen.WriteString(moveHome)
	for i, line := range lines {
		if i > 0 {
			screen.WriteString("\r\n")
		}
		if err := printers.WriteEscaped(&screen, line); err != nil {
			return err
		}
		screen.WriteString(clearLine)
	}
	screen.WriteString(clearBelow)
	_, err := io.WriteString(t.to, screen.String())
	return err
}

// Leave ends the drawing.
func (t *Terminal) Leave() error {
	_, err := io.WriteString(t.to, leaveScreen)
	return err
}
