// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
)

const (
	templatesFolder = "templates/"
	crdsFolder      = "crds/"
	// digestLength is how much of a digest stands in for a version.
	digestLength = 12
)

// manifestChart makes a chart of the layers of an artifact that is none.
func manifestChart(src *Source, format Format, layers []int, data [][]byte, limits Limits, b builder) (c *chart.Chart, err error) {
	// As for charts: a panic in a parser must not take down the releases of others.
	defer func() {
		if caught := recover(); caught != nil {
			c, err = nil, errUnreadable()
		}
	}()
	c = &chart.Chart{Metadata: &chart.Metadata{
		APIVersion: chart.APIVersionV2, Name: src.Name, Version: src.chartVersion(), Type: "application",
		Description: fmt.Sprintf("Generated from an artifact of the format %s.", format),
	}, Values: map[string]any{}}
	objects, err := objectsOf(c, src, format, layers, data, limits, b)
	if err != nil {
		return nil, err
	}
	return c, addObjects(c, objects, src.Templates)
}

// objectsOf returns the objects of an artifact that is no chart, and adds to the chart what is a template.
func objectsOf(c *chart.Chart, src *Source, format Format, layers []int, data [][]byte, limits Limits, b builder) ([]*object, error) {
	files, err := filesOf(src, format, layers, data, limits)
	if err != nil {
		return nil, err
	}
	r := newReader(limits)
	if format == FormatPlain {
		err = r.plain(c, files, src.Templates)
	} else {
		err = r.folder(c, files, src, format, b)
	}
	if err == nil && !r.saysEmpty && len(r.objects)+len(c.Templates)+len(c.Files) == 0 {
		err = fmt.Errorf("%w: it contains no objects; it has %s", ErrInvalidManifests, files.roots())
	}
	return r.objects, err
}

// chartVersion is the version of the artifact if it has a semantic one, and else one that tells its digest.
func (s *Source) chartVersion() string {
	if version, err := semver.StrictNewVersion(strings.TrimPrefix(s.Version, "v")); err == nil && len(s.Version) <= maxVersionLength {
		return version.String()
	}
	_, encoded, _ := strings.Cut(s.Digest, ":")
	return "0.0.0+" + encoded[:min(digestLength, len(encoded))]
}

// filesOf unpacks the layers of an artifact.
func filesOf(src *Source, format Format, layers []int, data [][]byte, limits Limits) (*tree, error) {
	if format == FormatPlain {
		all := newImage(limits)
		for _, layer := range data {
			if err := all.layer(layer); err != nil {
				return nil, err
			}
		}
		return all.tree()
	}
	files := newTree(limits)
	for i, layer := range layers {
		var err error
		switch {
		case format == FormatFleet:
			err = files.fleet(data[i])
		case format == FormatFiles && !src.Layers[layer].IsFolder:
			title := src.Layers[layer].Title
			if err = files.take(title, int64(len(data[i])), limits.FileBytes); err == nil {
				err = files.add(title, data[i])
			}
		default:
			err = files.folder(data[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// plain reads a plain bundle, all files of which hold objects.
func (r *reader) plain(c *chart.Chart, files *tree, templates bool) error {
	for _, name := range files.names() {
		if err := r.take(c, name, files.files[name], templates); err != nil {
			return err
		}
	}
	return nil
}

// folder reads what is selected of the files of an artifact.
func (r *reader) folder(c *chart.Chart, files *tree, src *Source, format Format, b builder) error {
	root := path.Clean("/" + src.Path)[1:]
	names := files.below(root)
	if len(names) == 0 {
		return fmt.Errorf("%w: it has no folder %q; it has %s", ErrInvalidManifests, clip(root), files.roots())
	}
	k := newKustomizer(files.files, r.limits, b)
	built := ""
	for _, name := range names {
		if built != "" && strings.HasPrefix(name, built) {
			continue
		}
		if isFleetOptions(format, name, files.files[name], r.limits) {
			continue
		}
		folder, isBuilt := k.above(root, name)
		if err := refuseChosen(format, root, name, isBuilt, folder); err != nil {
			return err
		}
		if isHidden(strings.TrimPrefix(name, root)) {
			continue
		}
		if isBuilt {
			if err := r.kustomization(k, folder); err != nil {
				return err
			}
			if folder == "" {
				return nil
			}
			built = folder + "/"
			continue
		}
		isHelper := src.Templates && path.Ext(name) == ".tpl"
		if !isManifestFile(name) && !isHelper {
			continue
		}
		if err := r.take(c, name, files.files[name], src.Templates); err != nil {
			return err
		}
	}
	return nil
}

const (
	chartMetadataFile = "Chart.yaml"
	// fleetOverlays is the folder of an artifact of Fleet of which Fleet installs what its options choose, for each cluster.
	fleetOverlays = "overlays/"
)

// isFleetOptions tells a file with Fleet's options, which are no part of what is installed. Where Fleet did not make the artifact, a file of
// that name may hold objects as well as any other.
func isFleetOptions(format Format, name string, data []byte, limits Limits) bool {
	if base := path.Base(name); base != "fleet.yaml" && base != "fleet.yml" {
		return false
	}
	if format == FormatFleet {
		return true
	}
	isOptions := true
	err := newReader(limits).documents(name, data, func(_ string, content []byte) error {
		var fields map[string]any
		err := json.Unmarshal(content, &fields)
		isOptions = isOptions && err == nil && fields["kind"] == nil && fields["apiVersion"] == nil
		return nil
	})
	return isOptions && err == nil
}

// refuseChosen refuses what whoever made an artifact does not mean to be installed as it is: charts, which Fleet keeps in hidden folders,
// and Fleet's overlays. isBuilt tells that the kustomization in a folder is what is taken of the file.
func refuseChosen(format Format, root, name string, isBuilt bool, folder string) error {
	isFleet, hidden := format == FormatFleet, isHidden(strings.TrimPrefix(name, root))
	switch {
	case path.Base(name) == chartMetadataFile && (!hidden && !isBuilt || hidden && isFleet):
		return fmt.Errorf("%w: %q is a Helm chart; push the chart itself with \"helm push\" or \"kubectl helmop push\"", ErrInvalidManifests, clip(name))
	case isFleet && root == "" && strings.HasPrefix(name, fleetOverlays) && (isBuilt && folder != "" || !isBuilt && isManifestFile(name)):
		return fmt.Errorf("%w: %q belongs to an overlay, which Fleet selects by options that are not in the artifact; push what is "+
			"to be installed, or set path to one folder", ErrInvalidManifests, clip(name))
	}
	return nil
}

// isHidden tells files whose name, or that of a folder they are in, begins with a dot.
func isHidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

// take takes a file: as a template, or the objects in it.
func (r *reader) take(c *chart.Chart, name string, data []byte, isTemplate bool) error {
	if !isTemplate {
		return r.file(name, data)
	}
	if err := r.weigh(name, data); err != nil {
		return err
	}
	folder := templatesFolder
	if isManifestFile(name) && holdsCRDs(name, data, r.limits) {
		folder = crdsFolder
	}
	file := &chart.File{Name: folder + name, Data: data}
	if folder == crdsFolder {
		c.Files = append(c.Files, file)
	} else {
		c.Templates = append(c.Templates, file)
	}
	return nil
}

// holdsCRDs tells whether a file that may be a template is none and has nothing but CRDs in it.
func holdsCRDs(name string, data []byte, limits Limits) bool {
	if bytes.Contains(data, []byte("{{")) {
		return false
	}
	content := newReader(limits)
	if content.file(name, data) != nil {
		return false
	}
	for _, one := range content.objects {
		if !one.isCRD() {
			return false
		}
	}
	return len(content.objects) > 0
}

// addObjects adds objects to a chart, a file each.
func addObjects(c *chart.Chart, objects []*object, templates bool) error {
	for _, one := range objects {
		write, folder := one.literal, templatesFolder
		if templates || one.isCRD() {
			write = one.yaml
		}
		if one.isCRD() {
			folder = crdsFolder
		}
		data, err := write()
		if err != nil {
			return err
		}
		file := &chart.File{Name: folder + one.fileName(), Data: data}
		if one.isCRD() {
			c.Files = append(c.Files, file)
		} else {
			c.Templates = append(c.Templates, file)
		}
	}
	return nil
}
