// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
)

// lookups is the number of tags that are resolved at the same time.
const lookups = 8

// list is the command "list".
type list struct {
	registryaccess.Flags
	output  kube.Output
	digests bool
	streams Streams
}

// listed is the result of "list".
type listed struct {
	Repository string      `json:"repository"`
	Tags       []listedTag `json:"tags"`
}

type listedTag struct {
	Tag    string `json:"tag"`
	Digest string `json:"digest,omitempty"`
}

func newList(streams Streams) *cobra.Command {
	l := &list{streams: streams}
	cmd := &cobra.Command{
		Use:     "list oci://HOST/REPOSITORY",
		Aliases: []string{"ls"},
		Short:   "List the tags of a repository, highest version first",
		Example: `  kubectl helmop list oci://registry.example.com/platform/base --digests`,
		Args:    kube.Args(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return l.run(cmd, args[0]) },
	}
	l.Flags.Add(cmd.Flags())
	l.output.Add(cmd, "plain text", "json", "yaml")
	cmd.Flags().BoolVar(&l.digests, "digests", false, "Show the digest of each tag. This takes one request for each tag.")
	return cmd
}

func (l *list) run(cmd *cobra.Command, reference string) error {
	if err := l.output.Validate(); err != nil {
		return err
	}
	at, err := registryaccess.ParseLocation(reference)
	if err != nil {
		return err
	}
	if at.Reference.Reference != "" {
		return kube.Usagef("%q has a tag or a digest; give the repository only", reference)
	}
	ctx, cancel := l.Bounded(cmd)
	defer cancel()
	result, err := l.tags(ctx, at)
	if err != nil {
		return err
	}
	return l.output.Write(l.streams.Out, result, func(out io.Writer) error { return l.table(out, result) })
}

func (l *list) tags(ctx context.Context, at registryaccess.Location) (*listed, error) {
	repository, err := l.Repository(at)
	if err != nil {
		return nil, err
	}
	result := &listed{Repository: at.URL(), Tags: []listedTag{}}
	err = repository.Tags(ctx, "", func(tags []string) error {
		for _, tag := range tags {
			result.Tags = append(result.Tags, listedTag{Tag: tag})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(result.Tags, func(a, b listedTag) int { return compareTags(a.Tag, b.Tag) })
	if !l.digests {
		return result, nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookups)
	for i := range result.Tags {
		group.Go(func() error {
			desc, err := repository.Resolve(ctx, result.Tags[i].Tag)
			if err != nil {
				return fmt.Errorf("tag %s: %w", oneLine(result.Tags[i].Tag), err)
			}
			result.Tags[i].Digest = desc.Digest.String()
			return nil
		})
	}
	return result, group.Wait()
}

func (l *list) table(out io.Writer, result *listed) error {
	if !l.digests {
		for _, tag := range result.Tags {
			if _, err := fmt.Fprintln(out, oneLine(tag.Tag)); err != nil {
				return err
			}
		}
		return nil
	}
	table := printers.GetNewTabWriter(out)
	for _, tag := range result.Tags {
		if _, err := fmt.Fprintf(table, "%s\t%s\n", oneLine(tag.Tag), tag.Digest); err != nil {
			return err
		}
	}
	return table.Flush()
}

// oneLine quotes a text from a registry if it has control characters. Otherwise, it could write escape sequences to a
// terminal, or further lines to a log that a program reads.
func oneLine(text string) string {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return strconv.Quote(text)
	}
	return text
}

// compareTags sorts versions before other tags, and higher versions before lower versions.
func compareTags(a, b string) int {
	left, errLeft := semver.NewVersion(a)
	right, errRight := semver.NewVersion(b)
	switch {
	case errLeft == nil && errRight == nil:
		return cmp.Or(right.Compare(left), cmp.Compare(a, b))
	case errLeft == nil:
		return -1
	case errRight == nil:
		return 1
	default:
		return cmp.Compare(a, b)
	}
}
