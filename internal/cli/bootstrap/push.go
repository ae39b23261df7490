// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bootstrap"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

const (
	// checksumLength is the number of digits of the digest in an artifact's own tag.
	checksumLength = 12
	// maxKustomization is the maximum size of the user's kustomization folder, in bytes.
	maxKustomization = 8 << 20
	// emptyState is a kustomization without resources.
	emptyState = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n"
)

// push pushes the components and checks the credential of the cluster. If there is no desired state, it also pushes an
// empty state.
func (b *ociCommand) push(ctx context.Context, plan *plan, result *Result) error {
	known := ""
	if !b.pushOnly {
		var err error
		if err = b.checkRights(ctx, plan); err != nil {
			return err
		}
		if err = b.keepPath(ctx, plan); err != nil {
			return err
		}
		// The lookup runs once and before any push. The rest of the command uses its result.
		if known, err = b.findState(ctx, plan); err != nil {
			return err
		}
	}
	text, err := bootstrap.YAML(plan.components)
	if err != nil {
		return err
	}
	artifact, err := packed(map[string]string{bootstrap.ComponentsFile: string(text)}, map[string]string{
		ocispec.AnnotationTitle: "helmop", ocispec.AnnotationVersion: version.Version,
	})
	if err != nil {
		return err
	}
	b.say("pushing the components of %s to %s", version.Version, plan.provider.URL())
	result.Provider, err = b.ensure(ctx, plan, artifact)
	if err != nil || b.pushOnly {
		return err
	}
	state, err := b.ensureState(ctx, plan, known)
	if err != nil {
		return err
	}
	result.State = &state
	result.Credential, err = b.checkPull(ctx, plan)
	return err
}

// ensure pushes the artifact of the provider with its own tag, which contains its digest. Then it moves the given tag
// to the artifact. If the registry already has the content, ensure does not push or sign the content again.
func (b *ociCommand) ensure(
	ctx context.Context,
	plan *plan,
	artifact *pack.Artifact,
) (Artifact, error) {
	to, digest := plan.provider, artifact.Manifest.Digest
	own := strings.ReplaceAll(version.Version, "+", "_") + "-" + digest.Encoded()[:checksumLength]
	made := Artifact{Reference: to.Pinned(digest.String()), Tags: []string{own, to.Reference.Reference}}
	repository, err := b.Repository(to)
	if err != nil {
		return made, err
	}
	var missing []string
	for _, tag := range made.Tags {
		known, err := resolve(ctx, repository, tag)
		switch {
		case err != nil:
			return made, err
		case known == digest.String():
		case known != "" && tag == own:
			return made, fmt.Errorf(
				"tag %q of %s was moved to another artifact, %s; delete or restore the tag", tag, to.URL(), known)
		default:
			missing = append(missing, tag)
		}
	}
	if made.Pushed = len(missing) > 0; made.Pushed {
		made.Signature, err = plan.signer.Upload(ctx, b.streams, repository, artifact, missing)
	} else {
		made.Signature, err = plan.signer.Sign(ctx, repository, artifact.Manifest.Descriptor)
	}
	return made, err
}

// findState returns the digest of the desired state. The result is empty if there is no state and an empty state may be
// pushed.
func (b *ociCommand) findState(ctx context.Context, plan *plan) (string, error) {
	repository, err := b.Repository(plan.state)
	if err != nil {
		return "", err
	}
	known, err := resolve(ctx, repository, plan.state.Reference.Reference)
	if err != nil || known != "" || b.allowEmptyState {
		return known, err
	}
	applier, err := b.applier(nil)
	if err != nil {
		return "", err
	}
	applied, err := applier.AppliedState(ctx)
	if err != nil || applied == "" {
		return "", err
	}
	return "", kube.Usagef(
		"there is no artifact at %s:%s, and an empty state would delete everything that the current state has created, "+
			"including Clusters: %s; correct --cluster-url, push the state there first, or start over with --allow-empty-state",
		plan.state.URL(), plan.state.Reference.Reference, applied)
}

// ensureState returns the artifact of the desired state. known is the digest of the state. If known is empty,
// ensureState pushes an empty state.
func (b *ociCommand) ensureState(ctx context.Context, plan *plan, known string) (Artifact, error) {
	made := Artifact{Tags: []string{plan.state.Reference.Reference}}
	repository, err := b.Repository(plan.state)
	if err != nil {
		return made, err
	}
	artifact, err := packed(map[string]string{path.Join(plan.path, "kustomization.yaml"): emptyState}, nil)
	if err != nil {
		return made, err
	}
	if known != "" {
		made.Reference = plan.state.Pinned(known)
		if known == artifact.Manifest.Digest.String() {
			// The command signs only the empty state. The author of another state must sign it.
			made.Signature, err = plan.signer.Sign(ctx, repository, artifact.Manifest.Descriptor)
		}
		return made, err
	}
	b.say("there is no state at %s: pushing an empty state", plan.state.URL())
	made.Reference, made.Pushed = plan.state.Pinned(artifact.Manifest.Digest.String()), true
	made.Signature, err = plan.signer.Upload(ctx, b.streams, repository, artifact, made.Tags)
	return made, err
}

// resolve returns the digest of a tag; empty if the tag does not exist.
func resolve(ctx context.Context, repository *remote.Repository, tag string) (string, error) {
	desc, err := repository.Resolve(ctx, tag)
	if errors.Is(err, errdef.ErrNotFound) {
		return "", nil
	}
	return desc.Digest.String(), err
}

// digestOf returns the digest in a reference.
func digestOf(reference string) string {
	_, digest, _ := strings.Cut(reference, "@")
	return digest
}

// packed packs files as an artifact.
func packed(files, annotations map[string]string) (*pack.Artifact, error) {
	dir, err := os.MkdirTemp("", "helmop-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a copy of the artifact's content
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	return pack.Pack(dir, pack.Options{Format: bundle.FormatFlux, Annotations: annotations})
}

// readKustomization reads the folder of a kustomization file. In the result, this file has the name kustomization.yaml.
func readKustomization(file string) (map[string][]byte, error) {
	root, files, total := filepath.Dir(file), map[string][]byte{}, int64(0)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != root && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); total > maxKustomization {
			return kube.Usagef(
				"--kustomization: its folder has more than %d MiB; use a folder with only the kustomization and its files",
				maxKustomization>>20,
			)
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(relative)], err = os.ReadFile(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	content, ok := files[filepath.Base(file)]
	if !ok {
		return nil, kube.Usagef("--kustomization: %s is not a file", file)
	}
	for _, name := range []string{"kustomization.yml", "Kustomization", filepath.Base(file)} {
		delete(files, name)
	}
	files["kustomization.yaml"] = content
	return files, nil
}
