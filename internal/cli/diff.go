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
	"os"
	"slices"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// contextLines are how many lines are shown around a difference.
const contextLines = 3

// diff is the command of this name.
type diff struct {
	registryFlags
	output
	release, namespace string
	path               string
	templates          bool
	valueFiles         []string
	streams            Streams

	// mask is the key of the texts that stand for what Secrets hold.
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
	// Object is its kind, namespace and name; Change is added, removed or changed.
	Object string `json:"object"`
	Change string `json:"change"`
	// Diff is what differs, as a unified diff of YAML.
	Diff string `json:"diff"`
}

func newDiff(streams Streams) *cobra.Command {
	d := &diff{streams: streams, mask: []byte(rand.Text())}
	cmd := &cobra.Command{
		Use:   "diff oci://OLD oci://NEW",
		Short: "Compare the objects of two artifacts, whatever their formats",
		Long: `Compare the objects that two artifacts install, whatever their formats. Charts are rendered with their own values and those of --values.

Exit codes as those of "kubectl diff": 0 no differences, 1 differences, above 1 a failure.`,
		Example: `  kubectl helmop diff oci://registry.example.com/platform/base:v1 oci://registry.example.com/platform/base:v2`,
		Args:    exactArgs("OLD", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			differ, err := d.run(cmd, args[0], args[1])
			switch {
			case err != nil:
				return diffError{err}
			case differ:
				return errDiffers
			default:
				return nil
			}
		},
	}
	d.registryFlags.add(cmd.Flags())
	d.output.add(cmd.Flags())
	cmd.Flags().StringVar(&d.release, "release", "release", "Name of the release for which charts are rendered.")
	cmd.Flags().StringVarP(&d.namespace, "namespace", "n", "default", "Namespace of the release for which charts are rendered.")
	cmd.Flags().StringSliceVarP(&d.valueFiles, "values", "f", nil, "Files with values for charts; later ones win.")
	cmd.Flags().StringVar(&d.path, "path", "", "Folder of the artifacts to compare, as spec.source.path of a HelmOp.")
	cmd.Flags().BoolVar(&d.templates, "templates", false, "Take files that are no charts for templates, as spec.source.templating Helm of a HelmOp.")
	return cmd
}

func (d *diff) run(cmd *cobra.Command, before, after string) (bool, error) {
	if err := d.output.validate(); err != nil {
		return false, err
	}
	locations := make([]location, 2)
	for i, text := range []string{before, after} {
		var err error
		if locations[i], err = parseArtifact(text); err != nil {
			return false, err
		}
	}
	ctx, cancel := d.bounded(cmd)
	defer cancel()
	artifacts, objects := make([]*remoteArtifact, 2), make([]map[string]string, 2)
	for i, at := range locations {
		var err error
		if artifacts[i], err = d.open(ctx, d.streams, at); err != nil {
			return false, err
		}
		if i == 1 && artifacts[0].desc.Digest == artifacts[1].desc.Digest {
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
	return len(result.Objects) > 0, d.write(d.streams.Out, result, func(out io.Writer) error {
		for _, object := range result.Objects {
			if _, err := io.WriteString(out, object.Diff); err != nil {
				return err
			}
		}
		return nil
	})
}

// objects are those of an artifact as YAML, by their names.
func (d *diff) objects(ctx context.Context, a *remoteArtifact) (map[string]string, error) {
	defer a.progress.end()
	// A loader of its own: rendering changes the chart.
	loader := bundle.NewLoader(bundle.Limits{}, sandbox.InProcess(bundle.Tasks()))
	source := a.source()
	source.Path, source.Templates = d.path, d.templates
	chart, err := loader.Chart(ctx, source)
	if err != nil {
		return nil, err
	}
	values, err := readValues(d.valueFiles)
	if err != nil {
		return nil, err
	}
	rendered, err := bundle.Render(chart, bundle.RenderOptions{Name: d.release, Namespace: d.namespace, Values: values})
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

// nameBeside is a name that is not taken: objects of one name, as those with generateName are, have numbers from the second on.
func nameBeside(taken map[string]string, name string) string {
	free := name
	for n := 2; ; n++ {
		if _, is := taken[free]; !is {
			return free
		}
		free = fmt.Sprintf("%s (%d)", name, n)
	}
}

// textOf is an object as YAML. What a Secret holds is not shown, only whether it differs: the output may end in a log.
func (d *diff) textOf(object *unstructured.Unstructured) (string, error) {
	if object.GetKind() == "Secret" && object.GetAPIVersion() == "v1" {
		for _, field := range []string{"data", "stringData"} {
			content, _, _ := unstructured.NestedMap(object.Object, field)
			for key, value := range content {
				sum := hmac.New(sha256.New, d.mask)
				_, _ = fmt.Fprint(sum, value) // a hash takes everything
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

// readValues lays the values of files over each other.
func readValues(files []string) (map[string]any, error) {
	merged := map[string]any{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("--values: %w", err)}
		}
		values := map[string]any{}
		if err := yaml.Unmarshal(data, &values); err != nil {
			return nil, usageError{fmt.Errorf("--values: %s: %w", name, err)}
		}
		merged = bundle.MergeValues(merged, values)
	}
	return merged, nil
}

func union(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// compare tells how an object differs.
func compare(name string, before, after map[string]string) (diffedObject, bool) {
	was, had := before[name]
	is, has := after[name]
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

// lines splits a text for a diff; none has no lines.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return difflib.SplitLines(text)
}
