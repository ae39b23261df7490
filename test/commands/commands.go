// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commands reads the commands in the documentation, so that tests can run them unchanged. It does not run them
// itself.
package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// codeBlock matches a block of commands in a page, which may be a part of a list.
var codeBlock = regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```$")

// Block returns the block of commands below a heading of a page that contains a text. root is the folder of the
// checkout, and page a path in it with slashes.
func Block(root, page, heading, contains string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return "", err
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		return "", fmt.Errorf("%s has no %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range codeBlock.FindAllStringSubmatch(section, -1) {
		commands := strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n")
		if strings.Contains(commands, contains) {
			return commands, nil
		}
	}
	return "", fmt.Errorf("%s has no commands with %q below %q", page, contains, heading)
}
