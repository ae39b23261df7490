// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package templating renders the values, the release name and the release namespace of a HelmOp for one Cluster.
//
// It is pure: no client, no environment, no files, no network, no clock, no randomness. The same input gives the
// same values and the same digest, so a digest that differs means that something a user can see has changed.
//
// A HelmOp is compiled once (Compile) and rendered per Cluster (Program.Render). A Program is safe for
// concurrent use and keeps nothing of what it rendered.
//
// # Types
//
// Text that comes from data never becomes structure.
//
//   - A string in values that is one action and nothing else takes the value of its pipeline, with its type:
//     replicas: "{{ .ControlPlane.spec.replicas }}" is a number, a list stays a list. Every other string with an action
//     in it is a string.
//   - In valuesTemplate, which yields YAML, an action that prints a string prints a stand-in. The stand-ins are
//     replaced after the YAML has been read, so "1.10" stays a string and a line break or a colon in a label has
//     no meaning. Numbers and booleans print as such. YAML comes out of actions that say so: toYaml, toJson, quote.
//
// # Bounds
//
// Every loop round and every function call of a rendering is paid from one budget of work, by the size of what it
// handles, so that a template that would run for minutes or fill the memory ends with an error, the same one on
// every machine. The context is looked at on the same occasions.
//
// # Errors
//
// An Error names the field, the key, the line and the cause. It quotes names that stand in the template, never data:
// a cause is put together from what is known to be safe, messages of the template engine are not passed on.
package templating
