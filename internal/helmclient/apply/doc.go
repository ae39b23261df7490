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

// Package apply is Helm's client of a cluster: it builds, creates, updates and deletes the objects of a manifest.
//
// It differs from Helm's own client where a controller needs more care. It does not touch objects that belong to another release
// (ownership.go). It creates the namespace only when the first object needs it (namespace.go). It replaces objects whose update is refused, if the
// caller allows that (force.go). It ends an action whose record is gone (stop.go), and finds what failed revisions left (leftovers.go).
//
// It does not decide which manifest is applied, and it writes no records.
package apply
