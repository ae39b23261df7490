// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// maxEmptyList is far above what an empty list says of itself, in bytes.
const maxEmptyList = 4 << 10

// isEmptyList says whether an answer is a list of tags or referrers with nothing in
// it, and leaves the body readable. A mirror that caches has empty lists of what
// nobody has pulled through it; they must not hide the registry's.
func isEmptyList(resp *http.Response) bool {
	isList := resp.StatusCode == http.StatusOK && listOf(resp.Request.URL.Path) != ""
	if !isList || resp.ContentLength > maxEmptyList || resp.Header.Get("Link") != "" {
		return false
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxEmptyList))
	resp.Body = &peekedBody{Reader: io.MultiReader(bytes.NewReader(data), resp.Body), Closer: resp.Body}
	var list struct {
		Tags      []json.RawMessage `json:"tags"`
		Manifests []json.RawMessage `json:"manifests"`
	}
	return err == nil && json.Unmarshal(data, &list) == nil && len(list.Tags)+len(list.Manifests) == 0
}
