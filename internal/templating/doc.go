// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package templating renders the values, the release name and the release namespace of a HelmOp for one Cluster.
// Callers compile a HelmOp once ([Compile]) and render it for each Cluster ([Program.Render]). A Program is safe for
// concurrent use and stores nothing of a rendering.
//
// The package uses only what callers pass. Callers read the objects, the Secrets and the ConfigMaps from the API
// server. The package is pure: it uses no client, environment, files, network, clock or random numbers. The same input
// gives the same values and the same digest. So another digest means a change that the user can see.
//
// # Types
//
// Text from data never becomes YAML structure.
//
//   - If a string in values is exactly one action, it gets the value of the pipeline with its type:
//     replicas: "{{ .ControlPlane.spec.replicas }}" is a number, and a list stays a list. All other
//     strings with an action stay strings.
//   - In valuesTemplate, which yields YAML, an action that prints a string prints a placeholder. The
//     placeholders are replaced after the YAML has been parsed. So "1.10" stays a string, and a line
//     break or a colon in a label has no meaning. Numbers and booleans are printed directly. Only
//     toYaml, toJson and quote print YAML.
//
// # Limits
//
// Each rendering has one work budget. Each loop iteration and each function call is charged to it, by the size of the
// data. A template that would run for minutes or fill the memory ends with an error. The error is the same on every
// machine. Each charge also checks the context.
//
// # Errors
//
// An Error contains the field, the key, the line and the cause. It quotes names in the template, but never data: causes
// that are known to be safe replace the messages of the template engine.
package templating
