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
	// digestLength is how many digits of the digest a generated version has.
	digestLength = 12
)

// manifestChart generates a chart from an artifact that is not a chart.
func manifestChart(
	src *Source,
	format Format,
	layers []int,
	data [][]byte,
	limits Limits,
	b builder,
) (c *chart.Chart, err error) {
	// A panic in a parser must not affect the releases of others.
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

// objectsOf returns the objects of an artifact that is not a chart, and adds templates to the chart.
func objectsOf(
	c *chart.Chart,
	src *Source,
	format Format,
	layers []int,
	data [][]byte,
	limits Limits,
	b builder,
) ([]*object, error) {
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
	if err == nil && !r.isExplicitlyEmpty && len(r.objects)+len(c.Templates)+len(c.Files) == 0 {
		err = fmt.Errorf("%w: it contains no objects; it has %s", ErrInvalidManifests, files.roots())
	}
	return r.objects, err
}

// chartVersion returns the version of the artifact if it is a semantic version, and otherwise one that contains the
// digest.
func (s *Source) chartVersion() string {
	if version, err := semver.StrictNewVersion(strings.TrimPrefix(s.Version, "v")); err == nil &&
		len(s.Version) <= maxVersionLength {
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

// plain reads a plain bundle. All of its files hold objects.
func (r *reader) plain(c *chart.Chart, files *tree, templates bool) error {
	for _, name := range files.names() {
		if err := r.take(c, name, files.files[name], templates); err != nil {
			return err
		}
	}
	return nil
}

// folder reads the selected files of an artifact.
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
		if err := refuseNotInstallable(format, root, name, isBuilt, folder); err != nil {
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
	// fleetOverlays is the folder with Fleet's overlays, which Fleet selects by options for each cluster.
	fleetOverlays = "overlays/"
)

// isFleetOptions is true for a file with Fleet's options, which is not installed. In artifacts of other formats, a file
// of that name may hold objects.
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

// refuseNotInstallable returns an error for files that are not meant to be installed as they are:
// charts, which Fleet stores in hidden folders, and Fleet's overlays. isBuilt is true if the file
// is used through the kustomization in a folder.
func refuseNotInstallable(format Format, root, name string, isBuilt bool, folder string) error {
	isFleet, hidden := format == FormatFleet, isHidden(strings.TrimPrefix(name, root))
	switch {
	case path.Base(name) == chartMetadataFile && (!hidden && !isBuilt || hidden && isFleet):
		return fmt.Errorf(
			"%w: %q is a Helm chart; push the chart itself with \"helm push\" or \"kubectl helmop push\"",
			ErrInvalidManifests,
			clip(name),
		)
	case isFleet && root == "" && strings.HasPrefix(name, fleetOverlays) &&
		(isBuilt && folder != "" || !isBuilt && isManifestFile(name)):
		return fmt.Errorf("%w: %q belongs to an overlay, which Fleet selects by options that are not in the artifact; "+
			"push the files to install, or set path to one folder", ErrInvalidManifests, clip(name))
	}
	return nil
}

// isHidden is true if the name of a file or one of its folders starts with a dot.
func isHidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

// take adds a file, either as a template or by its objects.
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

// holdsCRDs is true if a file that could be a template is not one and holds only CRDs.
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

// addObjects adds objects to a chart, one file each.
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
