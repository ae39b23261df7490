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

// Package signing makes real signatures of artifacts in a registry, the way
// cosign and notation make and store them: by keys, keyless with a Sigstore of
// its own (certificate authority, certificate log, transparency log, timestamp
// authority), and by certificates. Everything is made in memory; only pushes
// talk to somebody.
//
// Each kind of signature can be made and pushed in one step (SignKeyed,
// Sigstore.SignKeyless, Notary.Sign and the like), or in two, to change something
// between.
package signing
