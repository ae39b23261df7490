// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// maxEmptyList is far above the size of an empty list, in bytes.
const maxEmptyList = 4 << 10

// isEmptyList reports whether an answer is a list of tags or referrers without entries. The body
// stays readable. A pull-through cache has empty lists for content that was never pulled through
// it, and they must not hide the registry's lists.
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
