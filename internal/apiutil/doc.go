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

// Package apiutil has what all controllers know of their own objects and of Clusters: names and labels, whose an object is, whether it is paused,
// ready or ends, which shard it belongs to, and which HelmOpReleases a Cluster or a HelmOp has.
//
// It decides nothing about the course of a release, and it writes nothing but the end of a HelmOpRelease that another one replaces.
package apiutil
