// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/documents"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// maxReason is the maximum length of kustomize's message in an error, in bytes.
const maxReason = 400

// Kustomizer finds the kustomizations in an artifact and builds them. It uses only the files of the artifact.
type Kustomizer struct {
	check   *check
	builder Builder
	// digest identifies the files and the limits. It is empty before the first build.
	digest string
}

// New returns a Kustomizer for the files of an artifact.
func New(files map[string][]byte, limits unpack.Limits, builder Builder) *Kustomizer {
	return &Kustomizer{check: newCheck(files, limits), builder: builder}
}

// IsKustomization is true if kustomize reads a file with this name as a kustomization, in any folder.
func IsKustomization(name string) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name))
}

// Above returns the outermost folder that has a kustomization and contains a file. The search starts at the folder
// root.
func (k *Kustomizer) Above(root, name string) (string, bool) {
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

// AddTo builds the kustomization in a folder and adds its objects to a reader. isExplicitlyEmpty is true if the
// kustomization has an explicitly empty list of resources.
func (k *Kustomizer) AddTo(r *documents.Reader, folder string) (isExplicitlyEmpty bool, err error) {
	made, err := k.build(folder)
	if err != nil {
		return false, err
	}
	output := int64(0)
	for _, content := range made.Objects {
		output += int64(len(content))
	}
	k.builder.Memory.Keep(output)
	defer k.builder.Memory.Keep(-output)
	for i, content := range made.Objects {
		where := objectPlace(folder, i)
		if err := r.Admit(where, content); err != nil {
			return false, err
		}
		if err := r.Document(where, content); err != nil {
			return false, err
		}
	}
	return made.IsExplicitlyEmpty, nil
}

// reasonOf returns kustomize's error without the patches and files that it quotes. These may hold secrets.
func reasonOf(err error) string {
	reason, _, _ := strings.Cut(err.Error(), "\n")
	for _, quote := range []string{"[patch: ", "{", "`"} {
		reason, _, _ = strings.Cut(reason, quote)
	}
	return truncate.Text(strings.TrimSpace(reason), maxReason)
}

// folderName returns the name of a folder for messages.
func folderName(folder string) string {
	if folder == "" {
		return "the root"
	}
	return fmt.Sprintf("%q", unpack.Clip(folder))
}

// kustomizations returns the names of the kustomization files in a folder.
func (c *check) kustomizations(folder string) []string {
	var found []string
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(folder, base)
		if _, ok := c.files[name]; ok {
			found = append(found, name)
		}
	}
	return found
}
