// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// output is the format in which a command prints its result.
type output string

const (
	outputText output = ""
	outputJSON output = "json"
	outputYAML output = "yaml"
)

func (o *output) add(flags *pflag.FlagSet) {
	flags.StringVarP((*string)(o), "output", "o", "", "Output format: json or yaml (default: plain text).")
}

func (o *output) validate() error {
	switch *o {
	case outputText, outputJSON, outputYAML:
		return nil
	default:
		return usageError{fmt.Errorf("--output %q is unknown; use json or yaml", string(*o))}
	}
}

// write prints a result. text prints it in the default format.
func (o *output) write(to io.Writer, result any, text func(io.Writer) error) error {
	var data []byte
	var err error
	switch *o {
	case outputJSON:
		if data, err = json.MarshalIndent(result, "", "  "); err == nil {
			data = append(data, '\n')
		}
	case outputYAML:
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
