// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Output is the value of --output: the format in which a command prints its result.
type Output struct {
	// Format is empty for the default, a text or a table for people.
	Format string

	formats []string
}

// Add adds the flag. formats are the formats of the command in addition to its default.
func (o *Output) Add(cmd *cobra.Command, byDefault string, formats ...string) {
	o.formats = formats
	cmd.Flags().StringVarP(&o.Format, "output", "o", "", "Output format: "+o.known()+" (default: "+byDefault+").")
	// An error would mean that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// known returns the names of the formats for a message.
func (o *Output) known() string {
	last := len(o.formats) - 1
	if last == 0 {
		return o.formats[0]
	}
	return strings.Join(o.formats[:last], ", ") + " or " + o.formats[last]
}

// Validate returns an error for an unknown format.
func (o *Output) Validate() error {
	if o.Format == "" || slices.Contains(o.formats, o.Format) {
		return nil
	}
	return Usagef("--output %q is unknown; use %s", o.Format, o.known())
}

// IsData reports whether the format is for programs: JSON or YAML.
func (o *Output) IsData() bool { return o.Format == "json" || o.Format == "yaml" }

// IsWide reports whether the format is a table with all columns.
func (o *Output) IsWide() bool { return o.Format == "wide" }

// Write prints a result as JSON or YAML, or calls text for the other formats.
func (o *Output) Write(to io.Writer, result any, text func(io.Writer) error) error {
	var data []byte
	var err error
	switch o.Format {
	case "json":
		if data, err = json.MarshalIndent(result, "", "  "); err == nil {
			data = append(data, '\n')
		}
	case "yaml":
		data, err = yaml.Marshal(result)
	default:
		return text(to)
	}
	if err != nil {
		return err
	}
	_, err = to.Write(data)
	return err
}
