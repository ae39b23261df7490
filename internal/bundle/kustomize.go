// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// kustomizer finds the kustomizations in an artifact and builds them from its files only.
type kustomizer struct {
	check   *kustomizationCheck
	builder builder
	// digest identifies the files and the limits; empty until something is built.
	digest string
}

func newKustomizer(files map[string][]byte, limits Limits, builder builder) *kustomizer {
	return &kustomizer{check: newKustomizationCheck(files, limits), builder: builder}
}

// IsKustomization is true if kustomize uses a file of this name as a kustomization, in any folder.
func IsKustomization(name string) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name))
}

// above returns the outermost folder with a kustomization that contains a file, starting from a folder of the artifact.
func (k *kustomizer) above(root, name string) (string, bool) {
	folder := root
	for {
		if len(k.check.kustomizations(folder)) > 0 {
			return folder, true
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(name, folder), "/")
		next, _, isFolder := strings.Cut(rest, "/")
		if !isFolder {
			return "", false
		}
		folder = path.Join(folder, next)
	}
}

// kustomization adds the objects of the kustomization in a folder.
func (r *reader) kustomization(k *kustomizer, folder string) error {
	made, err := k.build(folder)
	if err != nil {
		return err
	}
	r.isExplicitlyEmpty = r.isExplicitlyEmpty || made.IsExplicitlyEmpty
	for i, content := range made.Objects {
		where := objectPlace(folder, i)
		if err := r.weigh(where, content); err != nil {
			return err
		}
		if err := r.document(where, content); err != nil {
			return err
		}
	}
	return nil
}

// kustomizeReason returns kustomize's error without quoted patches and files, which may hold secrets.
func kustomizeReason(err error) string {
	reason, _, _ := strings.Cut(err.Error(), "\n")
	for _, quote := range []string{"[patch: ", "{", "`"} {
		reason, _, _ = strings.Cut(reason, quote)
	}
	return truncate.Text(strings.TrimSpace(reason), maxReason)
}

// folderName formats a folder of the artifact.
func folderName(folder string) string {
	if folder == "" {
		return "the root"
	}
	return fmt.Sprintf("%q", clip(folder))
}

// kustomizations returns the names of the kustomization files in a folder.
func (c *kustomizationCheck) kustomizations(folder string) []string {
	var found []string
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(folder, base)
		if _, ok := c.files[name]; ok {
			found = append(found, name)
		}
	}
	return found
}
