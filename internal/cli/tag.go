// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
)

// tag is the command "tag".
type tag struct {
	registryaccess.Flags
	output  kube.Output
	streams Streams
}

// tagged is the result of "tag".
type tagged struct {
	Reference string   `json:"reference"`
	Digest    string   `json:"digest"`
	Tags      []string `json:"tags"`
}

func newTag(streams Streams) *cobra.Command {
	t := &tag{streams: streams}
	cmd := &cobra.Command{
		Use:     "tag oci://HOST/REPOSITORY:TAG|@DIGEST TAG...",
		Short:   "Add tags to an artifact",
		Example: `  kubectl helmop tag oci://registry.example.com/platform/base:v1.2.3 production`,
		Args:    kube.Args(2, -1),
		RunE:    func(cmd *cobra.Command, args []string) error { return t.run(cmd, args[0], args[1:]) },
	}
	t.Flags.Add(cmd.Flags())
	t.output.Add(cmd, "plain text", "json", "yaml")
	return cmd
}

func (t *tag) run(cmd *cobra.Command, reference string, tags []string) error {
	if err := t.output.Validate(); err != nil {
		return err
	}
	at, err := registryaccess.ParseArtifact(reference)
	if err != nil {
		return err
	}
	for _, name := range tags {
		ref := at.Reference
		ref.Reference = name
		if err := ref.ValidateReferenceAsTag(); err != nil {
			return kube.Usagef("tag %q: %v", name, err)
		}
	}
	ctx, cancel := t.Bounded(cmd)
	defer cancel()
	repository, err := t.Repository(at)
	if err != nil {
		return err
	}
	desc, err := repository.Resolve(ctx, at.Reference.Reference)
	if err != nil {
		return err
	}
	for _, name := range tags {
		if err := repository.Tag(ctx, desc, name); err != nil {
			return fmt.Errorf("tag %s: %w", name, err)
		}
	}
	result := tagged{Reference: at.Pinned(desc.Digest.String()), Digest: desc.Digest.String(), Tags: tags}
	return t.output.Write(t.streams.Out, result, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, result.Reference)
		return err
	})
}
