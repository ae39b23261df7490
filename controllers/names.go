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

package controllers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxNameLength is what Kubernetes permits for the name of most objects.
const maxNameLength = 253

// childName is the name of the HelmOpRelease of a HelmOp and a Cluster, which is given as namespace/name where it is of another
// namespace. It is computed, not
// generated, so that a crash between two steps cannot make a second child. The hash keeps apart what the names
// alone would not ("a-b" and "c", "a" and "b-c").
func childName(helmOp, cluster string) string {
	sum := sha256.Sum256([]byte(helmOp + "/" + cluster))
	suffix := "-" + hex.EncodeToString(sum[:4])
	name := helmOp + "-" + strings.NewReplacer("/", "-", " ", "-").Replace(cluster)
	if len(name)+len(suffix) > maxNameLength {
		name = strings.TrimRight(name[:maxNameLength-len(suffix)], "-.")
	}
	return name + suffix
}

// digestOf is the hexadecimal SHA-256 of the JSON of its arguments; equal arguments have equal digests.
func digestOf(values ...any) (string, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("computing a digest: %w", err)
	}
	return hexDigest(raw), nil
}

// hexDigest is the hexadecimal SHA-256 of a text.
func hexDigest[T []byte | string](text T) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// truncate shortens a message to at most limit bytes, at the border of a character.
func truncate(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	const ellipsis = "…"
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + ellipsis
}
