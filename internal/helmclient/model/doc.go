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

// Package model has the types that the rooms of the Helm engine share: the cluster and the release that are meant ([Target], [Desired]), what was
// observed ([Observation], [Record]), and how to act ([Policy], [Options], [Storage], [Action]).
//
// It reads and writes no cluster. It knows the labels on Helm's release records, and what they mean, see labels.go: Helm keeps each revision
// in a Secret. The labels say who owns the release, the digests of the artifact, the values, the options and the post-rendering that the revision
// was made from, the revision, and the UID of the object that asked; how many tries at the same had failed before; what a rollback
// returned from; how the tests ended.
//
// Helm copies custom labels from the current revision to the next when a person runs `helm upgrade` or `helm rollback`. The label with the
// revision then differs from Helm's own label `version`: that revision was not made by this engine, and the labels on it mean nothing.
package model
