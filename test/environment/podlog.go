// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// podLog is the log of the program of a Pod, in the format in which container runtimes write logs for kubelets. A nil
// podLog is valid, and is used for a Pod without a log.
type podLog struct {
	// source is the file to which the program writes in all its starts. The first bytes of it are copied.
	source string
	copied int64
	// current is the log since the last start. previous is the log of the start before.
	current, previous string
}

func newPodLog(dir, source string) *podLog {
	return &podLog{source: source, current: filepath.Join(dir, "current.log"),
		previous: filepath.Join(dir, "previous.log")}
}

// files returns the files for the API server.
func (l *podLog) files() apiserver.LogFiles {
	return apiserver.LogFiles{Current: l.current, Previous: l.previous}
}

// copy copies what the program has written since the last call. An incomplete line is copied later.
func (l *podLog) copy() error {
	if l == nil {
		return nil
	}
	source, err := os.Open(l.source)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	if _, err := source.Seek(l.copied, io.SeekStart); err != nil {
		return err
	}
	var entries strings.Builder
	for lines := bufio.NewReader(source); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		l.copied += int64(len(line))
		fmt.Fprintf(&entries, "%s stderr F %s", time.Now().UTC().Format(time.RFC3339Nano), line)
	}
	return l.write(entries.String())
}

// write appends to the current log.
func (l *podLog) write(entries string) (err error) {
	current, err := os.OpenFile(l.current, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, current.Close()) }()
	_, err = current.WriteString(entries)
	return err
}

// rotate makes the current log the previous one. The program has ended.
func (l *podLog) rotate() error {
	if l == nil {
		return nil
	}
	if err := l.copy(); err != nil {
		return err
	}
	return os.Rename(l.current, l.previous)
}
