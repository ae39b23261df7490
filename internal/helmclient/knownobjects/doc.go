// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package knownobjects holds what HelmOp knows about the objects of releases without reading them: the versions that it
// observed or wrote, and digests of the manifests that it wrote.
//
//   - [Versions] has this knowledge for one release. An action deletes an object in its known version, and changes an
//     object whose content is known ([Versions.Expected]), without a read. The API server refuses the request if the
//     object has changed since then.
//   - [Cache] keeps the Versions of many releases between their actions.
//
// The package sends no request.
package knownobjects
