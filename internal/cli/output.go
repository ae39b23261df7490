/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// output is how a result is written.
type output string

const (
	outputText output = ""
	outputJSON output = "json"
	outputYAML output = "yaml"
)

func (o *output) add(flags *pflag.FlagSet) {
	flags.StringVarP((*string)(o), "output", "o", "", "Format of the result: json or yaml; default: text for people.")
}

func (o *output) validate() error {
	switch *o {
	case outputText, outputJSON, outputYAML:
		return nil
	default:
		return usageError{fmt.Errorf("--output %q is not known; there are json and yaml", string(*o))}
	}
}

// write writes a result; text writes it for people.
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
