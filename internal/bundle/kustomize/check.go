// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/documents"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// maxAffix is the maximum length of a prefix or suffix that kustomize adds to the name of every object. It is the
	// length of the longest valid name.
	maxAffix = 253
	// maxChanges limits the bytes that patches write into objects, as a multiple of the size of all manifests.
	maxChanges = 16
)

// cost is the maximum cost of building a kustomization.
type cost struct {
	// Weight is the weight of all files. A file counts as often as it is used.
	unpack.Weight
	// objects is the number of objects. Objects that patches delete are included.
	objects int64
	// changes is the number of bytes that may be written into each object.
	changes int64
	// isExplicitlyEmpty is true if the kustomization has an explicitly empty list of resources.
	isExplicitlyEmpty bool
}

func (c *cost) add(other *cost) {
	c.Bytes = min(c.Bytes+other.Bytes, yamlweight.Most)
	c.Tokens = min(c.Tokens+other.Tokens, yamlweight.Most)
	c.objects = min(c.objects+other.objects, yamlweight.Most)
	c.changes = min(c.changes+other.changes, yamlweight.Most)
}

func (c *cost) within(limits unpack.Limits) error {
	if err := documents.WithinLimits(c.Weight, limits); err != nil {
		return err
	}
	if most := maxChanges * limits.ManifestBytes; c.changes > most || c.changes*c.objects > most {
		return fmt.Errorf("%w: its patches, multiplied by its %d objects, have more than %d bytes", unpack.ErrTooLarge,
			c.objects, most)
	}
	return nil
}

// check checks kustomizations before they are built. Kustomize would send requests for remote references, run programs,
// and use any amount of time and memory. The check refuses references to content outside of the artifact, and fields
// whose result has no limit.
type check struct {
	files   map[string][]byte
	folders map[string]bool
	limits  unpack.Limits
	// known holds the costs of folders. A nil entry means that the check of the folder is running.
	known map[string]*cost
}

func newCheck(files map[string][]byte, limits unpack.Limits) *check {
	c := &check{
		files:   files,
		folders: map[string]bool{"": true},
		limits:  limits,
		known:   map[string]*cost{},
	}
	for name := range files {
		for folder := path.Dir(name); folder != "." && !c.folders[folder]; folder = path.Dir(folder) {
			c.folders[folder] = true
		}
	}
	return c
}

// folder checks the kustomization in a folder and all files and folders that it refers to.
func (c *check) folder(folder string) (*cost, error) {
	if known, seen := c.known[folder]; seen {
		if known == nil {
			return nil, fmt.Errorf("%w: the kustomization in %s contains itself", unpack.ErrInvalidManifests, folderName(folder))
		}
		return known, nil
	}
	c.known[folder] = nil
	names := c.kustomizations(folder)
	if len(names) != 1 {
		return nil, fmt.Errorf("%w: folder %s has %d kustomization files; it must have exactly one",
			unpack.ErrInvalidManifests, folderName(folder), len(names))
	}
	one := &file{check: c, folder: folder, name: names[0], cost: &cost{}}
	if err := one.read(); err != nil {
		return nil, err
	}
	c.known[folder] = one.cost
	return one.cost, nil
}

// file is a kustomization file. Its cost includes all files and folders that it refers to.
type file struct {
	check        *check
	folder, name string
	cost         *cost
}

func (k *file) refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %q %s", unpack.ErrInvalidManifests, unpack.Clip(k.name), fmt.Sprintf(format, args...))
}

func (k *file) read() error {
	if err := k.weigh(k.name); err != nil {
		return err
	}
	k.cost.changes = int64(len(k.check.files[k.name]))
	// The types of kustomize decide which fields it reads. For example, kustomize ignores the case of field names.
	var content types.Kustomization
	if err := content.Unmarshal(k.check.files[k.name]); err != nil {
		return k.refuse("is not a kustomization: %s", unpack.Clip(reasonOf(err)))
	}
	content.FixKustomization()
	k.cost.isExplicitlyEmpty = content.Resources != nil && len(content.Resources) == 0
	if field := unboundedField(&content); field != "" {
		return k.refuse("has %s, which HelmOp does not support, because its result is unlimited or is not in the artifact",
			field)
	}
	for _, affix := range []string{content.NamePrefix, content.NameSuffix, content.Namespace} {
		if len(affix) > maxAffix {
			return k.refuse("has a namePrefix, nameSuffix or namespace of more than %d characters", maxAffix)
		}
	}
	for _, step := range []func(*types.Kustomization) error{k.resources, k.patches, k.generators} {
		if err := step(&content); err != nil {
			return err
		}
	}
	return k.cost.within(k.check.limits)
}

// unboundedField returns the name of the first field that is set and that the check refuses.
func unboundedField(content *types.Kustomization) string {
	for _, field := range []struct {
		name  string
		isSet bool
	}{
		{"helmCharts", len(content.HelmCharts) > 0},
		{"helmChartInflationGenerator", len(content.HelmChartInflationGenerator) > 0},
		{"helmGlobals", content.HelmGlobals != nil},
		{"generators", len(content.Generators) > 0},
		{"transformers", len(content.Transformers) > 0},
		{"validators", len(content.Validators) > 0},
		{"openapi", len(content.OpenAPI) > 0},
		{"replacements", len(content.Replacements) > 0},
		{"vars", len(content.Vars) > 0}, //nolint:staticcheck // deprecated, but still works
	} {
		if field.isSet {
			return field.name
		}
	}
	return ""
}

func (k *file) resources(content *types.Kustomization) error {
	for _, named := range content.Resources { // includes the deprecated bases
		name, err := k.find("resources", named)
		if err != nil {
			return err
		}
		if k.check.folders[name] {
			err = k.include(name)
		} else {
			err = k.objects(name)
		}
		if err != nil {
			return err
		}
	}
	for _, named := range content.Components {
		name, err := k.find("components", named)
		if err == nil {
			err = k.include(name)
		}
		if err != nil {
			return err
		}
	}
	for _, named := range content.Configurations {
		if err := k.change("configurations", named); err != nil {
			return err
		}
	}
	for _, named := range content.Crds {
		if err := k.change("crds", named); err != nil {
			return err
		}
	}
	return nil
}

// include adds the cost of the kustomization in another folder.
func (k *file) include(folder string) error {
	other, err := k.check.folder(folder)
	if err != nil {
		return err
	}
	k.cost.add(other)
	return k.cost.within(k.check.limits)
}

// objects adds the cost of a file with objects.
func (k *file) objects(name string) error {
	content := documents.NewReader(k.check.limits, nil)
	if err := content.File(name, k.check.files[name]); err != nil {
		return err
	}
	k.cost.add(&cost{Weight: content.Total, objects: int64(len(content.Objects))})
	return k.cost.within(k.check.limits)
}

// weigh adds the cost of a file without objects.
func (k *file) weigh(name string) error {
	content := documents.NewReader(k.check.limits, nil)
	if err := content.Weigh(name, k.check.files[name]); err != nil {
		return err
	}
	k.cost.add(&cost{Weight: content.Total})
	return k.cost.within(k.check.limits)
}

// change adds the cost of a file whose content kustomize may add to each object.
func (k *file) change(field, named string) error {
	name, err := k.file(field, named)
	if err != nil {
		return err
	}
	k.cost.add(&cost{changes: int64(len(k.check.files[name]))})
	return k.weigh(name)
}

func (k *file) patches(content *types.Kustomization) error {
	patch := func(field, text, named string) error {
		if named == "" {
			return k.patch([]byte(text))
		}
		if err := k.change(field, named); err != nil {
			return err
		}
		return k.patch(k.check.files[path.Join(k.folder, named)])
	}
	for _, one := range content.Patches {
		if err := patch("patches", one.Patch, one.Path); err != nil {
			return err
		}
	}
	for _, one := range content.PatchesJson6902 { //nolint:staticcheck // deprecated, but still works
		if err := patch("patchesJson6902", one.Patch, one.Path); err != nil {
			return err
		}
	}
	for _, one := range content.PatchesStrategicMerge { //nolint:staticcheck // deprecated, but still works
		// An inline patch has several lines or braces. It is not a name that could be fetched.
		text, named := string(one), string(one)
		if strings.Contains(text, "\n") || strings.HasPrefix(text, "{") {
			named = ""
		}
		if err := patch("patchesStrategicMerge", text, named); err != nil {
			return err
		}
	}
	return nil
}

// patch returns an error for a patch that can grow without limit: with the JSON patch operation "copy", or with
// recursive aliases. It also returns an error for a patch that kustomize cannot read.
func (k *file) patch(text []byte) error {
	content := documents.NewReader(k.check.limits, nil)
	for one := range documents.Sections(text) {
		if err := content.Weigh(k.name, one.Text); err != nil {
			return err
		}
	}
	operations, err := jsonPatchOf(text)
	if err != nil {
		return k.refuse("has a patch that cannot be read: %s", unpack.Clip(reasonOf(err)))
	}
	if slices.ContainsFunc(operations, func(operation jsonpatch.Operation) bool { return operation.Kind() == "copy" }) {
		return k.refuse(refusedCopy)
	}
	return nil
}

// jsonPatchOf returns the operations of a JSON patch. It uses the parsers of kustomize. It returns nil for a strategic
// merge patch.
func jsonPatchOf(text []byte) (jsonpatch.Patch, error) {
	if !bytes.HasPrefix(text, []byte("[")) {
		var err error
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return nil, err
		}
	}
	if !bytes.HasPrefix(text, []byte("[")) {
		return nil, nil
	}
	return jsonpatch.DecodePatch(text)
}

const refusedCopy = "has a patch with the operation \"copy\", which HelmOp does not support because its result has " +
	"no limit"

// generators checks the files of ConfigMap and Secret generators.
func (k *file) generators(content *types.Kustomization) error {
	var sources []types.KvPairSources
	for _, one := range content.ConfigMapGenerator {
		sources = append(sources, one.KvPairSources)
	}
	for _, one := range content.SecretGenerator {
		sources = append(sources, one.KvPairSources)
	}
	for _, one := range sources {
		named := append(append([]string{}, one.EnvSources...), one.EnvSource)
		for _, file := range one.FileSources {
			if key, name, ok := strings.Cut(file, "="); ok && key != "" {
				file = name
			}
			named = append(named, file)
		}
		for _, file := range named {
			if file == "" {
				continue
			}
			name, err := k.file("configMapGenerator or secretGenerator", file)
			if err != nil {
				return err
			}
			size := int64(len(k.check.files[name]))
			k.cost.add(&cost{Weight: unpack.Weight{Bytes: size}})
		}
		k.cost.objects++
	}
	return k.cost.within(k.check.limits)
}

// file returns the name of the file that a field refers to.
func (k *file) file(field, named string) (string, error) {
	name, err := k.find(field, named)
	if err == nil && k.check.folders[name] {
		return "", k.refuse("names %q under %s, which is a folder; name a file", unpack.Clip(named), field)
	}
	return name, err
}

// find returns the name of the file or folder of the artifact that a field refers to. It refuses a name that could be
// remote, even if the artifact has a file with this name: kustomize checks the form of a name first.
func (k *file) find(field, named string) (string, error) {
	name := path.Join(k.folder, named)
	if name == "." {
		name = ""
	}
	lower := strings.ToLower(named)
	isRemote := strings.ContainsAny(named, ":@") || strings.HasPrefix(lower, "github.com/") || path.IsAbs(named) ||
		name == ".." || strings.HasPrefix(name, "../")
	_, isFile := k.check.files[name]
	if isRemote || named == "" || !isFile && !k.check.folders[name] {
		return "", k.refuse("names %q under %s, which is not a file or folder of the artifact, or has the form of a remote "+
			"name; HelmOp fetches no other files", unpack.Clip(named), field)
	}
	return name, nil
}
