// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/documents"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/kustomize"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

const (
	templatesFolder = "templates/"
	crdsFolder      = "crds/"
	// buildCopies is the number of copies of all files in memory while they are sent to the process that builds a
	// kustomization.
	buildCopies = 2
	// digestLength is the number of digits of the digest in a generated version.
	digestLength = 12
)

// generator generates a chart from an artifact without a chart.
type generator struct {
	*documents.Reader
	src    *Source
	format Format
	limits Limits
	files  *unpack.Tree
	memory *unpack.Memory
	chart  *chart.Chart
	// isExplicitlyEmpty is true if a kustomization has an explicitly empty list of resources.
	isExplicitlyEmpty bool
}

// manifestChart generates a chart from an artifact without a chart.
func manifestChart(src *Source, format Format, layers []int, data [][]byte, limits Limits, b kustomize.Builder,
) (c *chart.Chart, err error) {
	// A panic in a parser must not affect other releases.
	defer func() {
		if caught := recover(); caught != nil {
			c, err = nil, errUnreadable()
		}
	}()
	files, err := filesOf(src, format, layers, data, limits, b.Memory)
	if err != nil {
		return nil, err
	}
	g := &generator{Reader: documents.NewReader(limits, b.Memory), src: src, format: format, limits: limits, files: files,
		memory: b.Memory}
	g.chart = &chart.Chart{Metadata: &chart.Metadata{
		APIVersion: chart.APIVersionV2, Name: src.Name, Version: src.chartVersion(), Type: "application",
		Description: fmt.Sprintf("Generated from an artifact of the format %s.", format),
	}, Values: map[string]any{}}
	if err := g.read(b); err != nil {
		return nil, err
	}
	return g.chart, addObjects(g.chart, g.Objects, src.Templates, b.Memory)
}

// read reads the objects of the artifact. With Templates, it adds the files to the chart as templates.
func (g *generator) read(b kustomize.Builder) error {
	read := func() error { return g.folder(b) }
	if g.format == FormatPlain {
		read = g.plain
	}
	err := read()
	if err == nil && !g.isExplicitlyEmpty && len(g.Objects)+len(g.chart.Templates)+len(g.chart.Files) == 0 {
		err = fmt.Errorf("%w: it contains no objects; it has %s", ErrInvalidManifests, g.files.Roots())
	}
	return err
}

// chartVersion returns the version of the artifact if it is a semantic version. Otherwise, it returns a version with
// the digest.
func (s *Source) chartVersion() string {
	if version, err := semver.StrictNewVersion(strings.TrimPrefix(s.Version, "v")); err == nil &&
		len(s.Version) <= maxVersionLength {
		return version.String()
	}
	_, encoded, _ := strings.Cut(s.Digest, ":")
	return "0.0.0+" + encoded[:min(digestLength, len(encoded))]
}

func filesOf(src *Source, format Format, layers []int, data [][]byte, limits Limits, memory *unpack.Memory,
) (*unpack.Tree, error) {
	if format == FormatPlain {
		return unpack.Image(data, limits, memory)
	}
	files := unpack.NewTree(limits, memory)
	for i, layer := range layers {
		var err error
		switch {
		case format == FormatFleet:
			err = files.Fleet(data[i])
		case format == FormatFiles && !src.Layers[layer].IsFolder:
			err = files.File(src.Layers[layer].Title, data[i])
		default:
			err = files.Folder(data[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// plain reads a plain bundle. All files of a plain bundle hold objects.
func (g *generator) plain() error {
	for _, name := range g.files.Names() {
		if err := g.take(name); err != nil {
			return err
		}
	}
	return nil
}

// folder reads the selected files of an artifact.
func (g *generator) folder(b kustomize.Builder) error {
	root := path.Clean("/" + g.src.Path)[1:]
	names := g.files.Below(root)
	if len(names) == 0 {
		return fmt.Errorf("%w: it has no folder %q; it has %s", ErrInvalidManifests, unpack.Clip(root), g.files.Roots())
	}
	k := kustomize.New(g.files.Files, g.limits, b)
	built := ""
	for _, name := range names {
		if built != "" && strings.HasPrefix(name, built) {
			continue
		}
		if isOptions, err := g.isFleetOptions(name); isOptions || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		folder, isBuilt := k.Above(root, name)
		if err := refuseNotInstallable(g.format, root, name, isBuilt, folder); err != nil {
			return err
		}
		if isHidden(strings.TrimPrefix(name, root)) {
			continue
		}
		if isBuilt {
			if err := g.files.ReserveCopies(buildCopies); err != nil {
				return err
			}
			isEmpty, err := k.AddTo(g.Reader, folder)
			g.isExplicitlyEmpty = g.isExplicitlyEmpty || isEmpty
			if err != nil || folder == "" {
				return err
			}
			built = folder + "/"
			continue
		}
		isHelper := g.src.Templates && path.Ext(name) == ".tpl"
		if !documents.IsManifestFile(name) && !isHelper {
			continue
		}
		if err := g.take(name); err != nil {
			return err
		}
	}
	return nil
}

const (
	chartMetadataFile = "Chart.yaml"
	// fleetOverlays is the folder with Fleet's overlays. Fleet selects overlays by options for each cluster.
	fleetOverlays = "overlays/"
)

// isFleetOptions is true for a file with Fleet's options. Such a file is not installed. In artifacts of other formats,
// a file with this name may hold objects. The error is [bytebudget.ErrExhausted].
func (g *generator) isFleetOptions(name string) (bool, error) {
	if base := path.Base(name); base != "fleet.yaml" && base != "fleet.yml" {
		return false, nil
	}
	if g.format == FormatFleet {
		return true, nil
	}
	isOptions := true
	reader := documents.NewReader(g.limits, g.memory)
	err := reader.Documents(name, g.files.Files[name], func(_ string, content []byte) error {
		var fields map[string]any
		err := json.Unmarshal(content, &fields)
		isOptions = isOptions && err == nil && fields["kind"] == nil && fields["apiVersion"] == nil
		return nil
	})
	if errors.Is(err, bytebudget.ErrExhausted) {
		return false, err
	}
	return isOptions && err == nil, nil
}

// refuseNotInstallable returns an error for files that cannot be installed: charts, which Fleet stores in hidden
// folders, and Fleet's overlays. isBuilt is true if the kustomization in folder uses the file.
func refuseNotInstallable(format Format, root, name string, isBuilt bool, folder string) error {
	isFleet, hidden := format == FormatFleet, isHidden(strings.TrimPrefix(name, root))
	switch {
	case path.Base(name) == chartMetadataFile && (!hidden && !isBuilt || hidden && isFleet):
		return fmt.Errorf("%w: %q is a Helm chart; push the chart itself with \"helm push\" or \"kubectl helmop push\"",
			ErrInvalidManifests, unpack.Clip(name))
	case isFleet && root == "" && strings.HasPrefix(name, fleetOverlays) &&
		(isBuilt && folder != "" || !isBuilt && documents.IsManifestFile(name)):
		return fmt.Errorf("%w: %q belongs to an overlay, which Fleet selects by options that are not in the artifact; "+
			"push the files to install, or set path to one folder", ErrInvalidManifests, unpack.Clip(name))
	}
	return nil
}

// isHidden is true if the name of the file, or of one of its folders, starts with a dot.
func isHidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

// take adds a file to the chart: as a template, or as the objects in the file.
func (g *generator) take(name string) error {
	data := g.files.Files[name]
	if !g.src.Templates {
		return g.File(name, data)
	}
	if err := g.Weigh(name, data); err != nil {
		return err
	}
	isCRD := false
	if documents.IsManifestFile(name) {
		var err error
		if isCRD, err = g.holdsCRDs(name, data); err != nil {
			return err
		}
	}
	addFile(g.chart, isCRD, name, data)
	return nil
}

// addFile adds a file to a chart. A CRD goes to the folder crds, any other file is a template.
func addFile(c *chart.Chart, isCRD bool, name string, data []byte) {
	if isCRD {
		c.Files = append(c.Files, &chart.File{Name: crdsFolder + name, Data: data})
	} else {
		c.Templates = append(c.Templates, &chart.File{Name: templatesFolder + name, Data: data})
	}
}

// holdsCRDs is true if a file holds only CRDs and has no template actions. The error means that there is no memory to
// parse the file.
func (g *generator) holdsCRDs(name string, data []byte) (bool, error) {
	if bytes.Contains(data, []byte("{{")) {
		return false, nil
	}
	content := documents.NewReader(g.limits, g.memory)
	defer content.Drop()
	err := content.File(name, data)
	if errors.Is(err, bytebudget.ErrExhausted) || errors.Is(err, ErrTooLarge) {
		return false, err
	}
	isOther := func(one *documents.Object) bool { return !one.IsCRD() }
	return err == nil && len(content.Objects) > 0 && !slices.ContainsFunc(content.Objects, isOther), nil
}

// addObjects adds objects to a chart. Each object has its own file.
func addObjects(c *chart.Chart, objects []*documents.Object, templates bool, memory *unpack.Memory) error {
	for _, one := range objects {
		write := one.Literal
		switch {
		case one.IsCRD():
			write = one.Text
		case templates: // Helm renders the actions in the object
			write = one.YAML
		}
		data, err := write(memory)
		if err != nil {
			return err
		}
		memory.Keep(int64(len(data)))
		addFile(c, one.IsCRD(), one.FileName(), data)
	}
	return nil
}
