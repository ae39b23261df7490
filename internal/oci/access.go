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

package oci

// Access says how to talk to a registry. The zero value is anonymous HTTPS with
// the system's certificate authorities.
type Access struct {
	// DockerConfigJSON is a Docker config file. Only its "auths" are used;
	// credential helpers and stores would run programs and are ignored.
	DockerConfigJSON []byte
	// CA is a bundle of PEM certificates trusted in addition to the system's.
	CA []byte
	// Insecure talks plain HTTP instead of HTTPS.
	Insecure bool
}
