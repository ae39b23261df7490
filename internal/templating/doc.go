// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package templating renders the values, the release name and the release namespace of a HelmOp for
// one Cluster.
//
// It is pure: it uses no client, environment, files, network, clock or randomness. The same input
// gives the same values and the same digest. So a different digest means that something visible to
// the user has changed.
//
// A HelmOp is compiled once (Compile) and rendered per Cluster (Program.Render). A Program is safe
// for concurrent use and keeps nothing of a rendering.
//
// # Types
//
// Text from data never becomes YAML structure.
//
//   - A string in values that is exactly one action gets the value of its pipeline, with its type:
//     replicas: "{{ .ControlPlane.spec.replicas }}" is a number, and a list stays a list. Every
//     other string with an action is a string.
//   - In valuesTemplate, which yields YAML, an action that prints a string prints a placeholder.
//     The placeholders are replaced after the YAML has been parsed. So "1.10" stays a string, and a
//     line break or a colon in a label has no meaning. Numbers and booleans are printed directly.
//     Only toYaml, toJson and quote print YAML.
//
// # Limits
//
// Every loop iteration and every function call of a rendering is charged to one work budget, by the
// size of its data. A template that would run for minutes or fill the memory ends with an error,
// the same error on every machine. Each charge also checks the context.
//
// # Errors
//
// An Error contains the field, the key, the line and the cause. It quotes names in the template,
// but never data: messages of the template engine are replaced by causes that are known to be safe.
package templating
