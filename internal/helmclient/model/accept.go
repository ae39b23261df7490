// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// Values of the header Accept. They make the API server return only the metadata of objects, and not their contents,
// such as megabytes of schemas. An API server that does not know this form returns whole objects.
const (
	// AcceptMetadata is for requests whose response is one object.
	AcceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	// AcceptMetadataList is for requests whose response is a list.
	AcceptMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
