// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
)

// contextLines is the number of lines before and after a difference.
const contextLines = 3

// diff is the command "diff".
type diff struct {
	registryaccess.Flags
	output             kube.Output
	release, namespace string
	path               string
	templates          bool
	valueFiles         []string
	streams            Streams

	// mask is the key of the hashes that replace values of Secrets.
	mask []byte
}

// diffed is the result of "diff".
type diffed struct {
	Old     string         `json:"old"`
	New     string         `json:"new"`
	Objects []diffedObject `json:"objects"`
}

// diffedObject is an object that differs.
type diffedObject struct {
	// Object contains the kind, the namespace and the name. Change is "added", "removed" or "changed".
	Object string `json:"object"`
	Change string `json:"change"`
	// Diff is a unified diff of the object's YAML.
	Diff string `json:"diff"`
}

func newDiff(streams Streams) *cobra.Command {
	d := &diff{streams: streams, mask: []byte(rand.Text())}
	cmd := &cobra.Command{
		Use:   "diff oci://OLD oci://NEW",
		Short: "Compare the objects of two artifacts",
		Long: `Compare the objects that two artifacts install. The formats of the artifacts may differ. Charts are rendered
with their default values and those of --values. Values of Secrets are not shown, only whether they differ.

The exit codes are those of "kubectl diff": 0 without differences, 1 with differences, higher on failure.`,
		Example: `  kubectl helmop diff oci://registry.example.com/base:v1 oci://registry.example.com/base:v2`,
		Args:    kube.Args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			differ, err := d.run(cmd, args[0], args[1])
			switch {
			case err != nil:
				return kube.NoResult(err)
			case differ:
				return kube.ErrDiffers
			default:
				return nil
			}
		},
	}
	d.Flags.Add(cmd.Flags())
	d.output.Add(cmd, "plain text", "json", "yaml")
	cmd.Flags().StringVar(&d.release, "release", "release", "Release name to render charts with.")
	cmd.Flags().StringVarP(&d.namespace, "namespace", "n", "default", "Release namespace to render charts with.")
	cmd.Flags().StringSliceVarP(&d.valueFiles, "values", "f", nil,
		"Files with values for charts. Later files take precedence.")
	cmd.Flags().StringVar(&d.path, "path", "", "Folder of the artifacts to compare, like spec.source.path of a HelmOp.")
	cmd.Flags().BoolVar(&d.templates, "templates", false,
		"Render the files of artifacts that are not charts as templates, like spec.source.templating: Helm of a HelmOp.")
	return cmd
}

func (d *diff) run(cmd *cobra.Command, before, after string) (bool, error) {
	if err := d.output.Validate(); err != nil {
		return false, err
	}
	locations := make([]registryaccess.Location, 2)
	for i, text := range []string{before, after} {
		var err error
		if locations[i], err = registryaccess.ParseArtifact(text); err != nil {
			return false, err
		}
	}
	ctx, cancel := d.Bounded(cmd)
	defer cancel()
	artifacts, objects := make([]*registryaccess.Artifact, 2), make([]map[string]string, 2)
	for i, at := range locations {
		var err error
		if artifacts[i], err = d.Open(ctx, d.streams, at); err != nil {
			return false, err
		}
		if i == 1 && artifacts[0].Digest() == artifacts[1].Digest() {
			objects[1] = objects[0]
			continue
		}
		if objects[i], err = d.objects(ctx, artifacts[i]); err != nil {
			return false, fmt.Errorf("%s: %w", artifacts[i], err)
		}
	}
	result := diffed{Old: artifacts[0].String(), New: artifacts[1].String(), Objects: []diffedObject{}}
	for _, name := range slices.Sorted(maps.Keys(union(objects[0], objects[1]))) {
		if changed, ok := compare(name, objects[0], objects[1]); ok {
			result.Objects = append(result.Objects, changed)
		}
	}
	return len(result.Objects) > 0, d.output.Write(d.streams.Out, result, func(out io.Writer) error {
		for _, object := range result.Objects {
			if _, err := io.WriteString(out, object.Diff); err != nil {
				return err
			}
		}
		return nil
	})
}

// objects returns the objects of an artifact as YAML, by name.
func (d *diff) objects(ctx context.Context, a *registryaccess.Artifact) (map[string]string, error) {
	defer a.EndProgress()
	source := a.Source()
	source.Path, source.Templates = d.path, d.templates
	values, err := rendering.ReadValues(d.valueFiles)
	if err != nil {
		return nil, err
	}
	rendered, err := rendering.Objects(ctx, source, d.release, d.namespace, values)
	if err != nil {
		return nil, err
	}
	objects := map[string]string{}
	for _, object := range rendered {
		if objects[nameBeside(objects, bundle.ObjectName(object))], err = d.textOf(object); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// nameBeside returns a name that is not taken. If several objects have the same name, for example with generateName,
// all but the first get a number.
func nameBeside(taken map[string]string, name string) string {
	free := name
	for n := 2; ; n++ {
		if _, is := taken[free]; !is {
			return free
		}
		free = fmt.Sprintf("%s (%d)", name, n)
	}
}

// textOf returns an object as YAML. Hashes replace the values of a Secret, because the output may be stored in a log.
func (d *diff) textOf(object *unstructured.Unstructured) (string, error) {
	if object.GetKind() == "Secret" && object.GetAPIVersion() == "v1" {
		for _, field := range []string{"data", "stringData"} {
			content, _, _ := unstructured.NestedMap(object.Object, field)
			for key, value := range content {
				sum := hmac.New(sha256.New, d.mask)
				_, _ = fmt.Fprint(sum, value) // writing to a hash never fails
				content[key] = fmt.Sprintf("*** %.8x", sum.Sum(nil)[:4])
			}
			if len(content) > 0 {
				object.Object[field] = content
			}
		}
	}
	data, err := yaml.Marshal(object.Object)
	return string(data), err
}

func union(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// compare returns the difference between two versions of an object; false if there is no difference.
func compare(name string, before, after map[string]string) (diffedObject, bool) {
	was, had := before[name]
	is, has := after[name]
	name = oneLine(name)
	changed := diffedObject{Object: name, Change: "changed"}
	switch {
	case was == is && had == has:
		return changed, false
	case !had:
		changed.Change = "added"
	case !has:
		changed.Change = "removed"
	}
	from, to := "/dev/null", "/dev/null"
	if had {
		from = "old/" + name
	}
	if has {
		to = "new/" + name
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(was), B: lines(is), FromFile: from, ToFile: to, Context: contextLines,
	})
	changed.Diff = cmp.Or(text, fmt.Sprintf("%s: %s %v\n", name, changed.Change, err))
	return changed, true
}

// lines splits a text for a diff.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return difflib.SplitLines(text)
}
