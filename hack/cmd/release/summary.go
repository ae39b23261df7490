// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/chart"
	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/files"
	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/provenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/publish"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/signing"
)

const (
	provenanceFile = "provenance.intoto.json"
	// bundleSuffix is the suffix of a signature.
	bundleSuffix = ".sigstore.json"
)

// summary writes the provenance and the checksums. The subjects of the provenance are all files and the artifacts in
// registries.
func (r *release) summary() error {
	none := func(string) bool { return false }
	subjects, err := files.Sums(r.output, none)
	if err != nil {
		return err
	}
	subjects[r.image] = r.imageIndex.Root.Digest.Encoded()
	if r.charts != "" && r.components != "" {
		subjects[r.charts+"/"+chart.Name] = r.helmChart.Root.Digest.Encoded()
		subjects[r.components] = r.clusterctl.Root.Digest.Encoded()
	}
	statement, err := provenance.Statement(provenance.Build{
		Source: r.source, Commit: r.commit, Go: runtime.Version(), Builder: r.builder, Subjects: subjects,
		Parameters: map[string]string{
			"RELEASE_TAG": r.version, "IMG": r.image, "CHARTS": r.charts, "COMPONENTS": r.components,
			"PLATFORMS": r.imagePlatforms, "CLI_PLATFORMS": r.platforms, "LDFLAGS": r.ldflags,
		},
	})
	if err != nil {
		return err
	}
	if err := r.write(provenanceFile, statement); err != nil {
		return err
	}
	sums, err := files.Sums(r.output, none)
	if err != nil {
		return err
	}
	return r.write(files.ChecksumFile, files.Checksums(sums))
}

// sign signs the checksums and the provenance. It does nothing without a key.
func (r *release) sign(key crypto.PrivateKey) error {
	if key == nil {
		return nil
	}
	sums, err := os.ReadFile(filepath.Join(r.output, files.ChecksumFile))
	if err != nil {
		return err
	}
	signature, err := signing.File(key, sums)
	if err != nil {
		return err
	}
	statement, err := os.ReadFile(filepath.Join(r.output, provenanceFile))
	if err != nil {
		return err
	}
	attestation, err := signing.Attestation(key, statement)
	if err != nil {
		return err
	}
	for name, bundle := range map[string]*protobundle.Bundle{
		files.ChecksumFile: signature, provenanceFile: attestation,
	} {
		data, err := signing.Marshal(bundle)
		if err != nil {
			return err
		}
		if err := r.write(name+bundleSuffix, data); err != nil {
			return err
		}
	}
	return nil
}

// push pushes the artifacts, with the provenance as an attestation of each. It does nothing without -push.
func (r *release) push(ctx context.Context, key crypto.PrivateKey) error {
	if !r.options.push {
		return nil
	}
	statement, err := os.ReadFile(filepath.Join(r.output, provenanceFile))
	if err != nil {
		return err
	}
	predicate, err := provenance.Predicate(statement)
	if err != nil {
		return err
	}
	var pushed strings.Builder
	target := publish.Target{PlainHTTP: r.plainHTTP, Key: key}
	for _, one := range []struct {
		artifact  publish.Artifact
		reference string
	}{
		{r.imageIndex, r.image + ":" + r.version},
		// A tag cannot contain "+", so Helm writes "_".
		{r.helmChart, r.charts + "/" + chart.Name + ":" + strings.ReplaceAll(r.number(), "+", "_")},
		{r.clusterctl, r.components + ":" + r.version},
	} {
		one.artifact.Attestations = append(one.artifact.Attestations, publish.Attestation{
			Subject: one.artifact.Root, PredicateType: provenance.PredicateType, Predicate: predicate,
		})
		if err := pushWithin(ctx, target, one.artifact, one.reference); err != nil {
			return fmt.Errorf("%s: %w", one.reference, err)
		}
		fmt.Fprintf(r.progress, "pushed %s@%s\n", one.reference, one.artifact.Root.Digest)
		fmt.Fprintf(&pushed, "%s@%s\n", one.reference, one.artifact.Root.Digest)
	}
	// This file is for tools that sign in another way.
	return os.WriteFile(filepath.Join(r.work, "pushed.txt"), []byte(pushed.String()), 0o644)
}

// pushTimeout bounds the copy of some 100 MB to a registry.
const pushTimeout = 15 * time.Minute

func pushWithin(ctx context.Context, target publish.Target, artifact publish.Artifact, reference string) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	return target.Push(ctx, artifact, reference)
}
