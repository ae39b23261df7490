/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"runtime"
	"slices"
	"sync"
	"weak"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
)

const (
	// maxRecordSize bounds what Helm's storage holds of one revision, as it is stored: JSON, compressed, in base64. The
	// data of a Secret may have 1 MiB; the rest is for what an action adds, such as when its hooks ran and what failed.
	maxRecordSize = 1<<20 - 8<<10
	// smallChart is the number of bytes below which a chart cannot be too large by itself, however badly it compresses.
	smallChart = 512 << 10
)

// checkRecordSize returns an error where a revision does not fit into a Secret; encoded is its size as it is stored.
func checkRecordSize(encoded int) error {
	if encoded <= maxRecordSize {
		return nil
	}
	return errorOfKind(ErrTooLarge, "chart, values and manifest have %d KiB once compressed and encoded, and a Secret of Helm holds %d KiB: "+
		"leave files out of the chart that no template reads (tests, icons, documentation), or split the chart", (encoded+1023)>>10, maxRecordSize>>10)
}

// checkChartSize returns an error where a chart is too large for Helm's storage, whatever is rendered from it.
func checkChartSize(chrt *chart.Chart) error {
	if chartBytes(chrt) < smallChart {
		return nil
	}
	return checkRecordSize(chartSizes.of(chrt))
}

// checkSize renders a large chart before its CRDs are applied, as if the cluster served their kinds already, and returns an
// error where the outcome is too large for Helm's storage. A chart that cannot be rendered so is no error: it may look
// something up in the cluster. All other charts are checked when their record is made, before anything else.
func (s *session) checkSize(desired Desired, chrt *chart.Chart, values map[string]any, renderer postrender.PostRenderer,
	crds []*crdFolderObject, upgrade bool,
) error {
	if chartBytes(chrt) < smallChart {
		return nil
	}
	install := action.NewInstall(&action.Configuration{Log: s.logs.printf, Capabilities: s.config.Capabilities})
	install.ReleaseName, install.Namespace, install.Labels = desired.Name, desired.Namespace, desiredLabels(desired)
	install.ClientOnly, install.DryRun, install.SkipCRDs, install.SkipSchemaValidation = true, true, true, true
	install.IsUpgrade = upgrade
	install.PostRenderer = renderer
	install.KubeVersion = &s.config.Capabilities.KubeVersion
	install.APIVersions = slices.Clone(s.config.Capabilities.APIVersions)
	for _, crd := range crds {
		for _, kind := range crd.serves {
			install.APIVersions = append(install.APIVersions, kind.GroupVersion().String(), kind.GroupVersion().String()+"/"+kind.Kind)
		}
	}
	rls, err := install.Run(copyChart(chrt), copyValues(values))
	if err != nil {
		s.logs.printf("the size of the release is not known in advance: %s", err)
		return nil
	}
	return checkRecordSize(storedSize(rls))
}

// fitsRecord returns an error where a revision is too large for Helm's storage.
func fitsRecord(rls *release.Release) error {
	size := len(rls.Manifest)
	for _, hook := range rls.Hooks {
		size += len(hook.Manifest)
	}
	if rls.Chart != nil {
		size += chartBytes(rls.Chart)
	}
	if size < smallChart {
		return nil
	}
	return checkRecordSize(storedSize(rls))
}

// chartBytes returns how large the files of a chart are that Helm stores; it does not store those of dependencies.
func chartBytes(chrt *chart.Chart) int {
	total := len(chrt.Schema)
	for _, files := range [][]*chart.File{chrt.Templates, chrt.Files} {
		for _, file := range files {
			total += len(file.Data)
		}
	}
	return total
}

// chartSizes keeps how large charts are when they are stored, for as long as they live.
var chartSizes = sizeCache{sizes: map[weak.Pointer[chart.Chart]]int{}}

type sizeCache struct {
	mu    sync.Mutex
	sizes map[weak.Pointer[chart.Chart]]int
}

func (c *sizeCache) of(chrt *chart.Chart) int {
	key := weak.Make(chrt)
	c.mu.Lock()
	size, ok := c.sizes[key]
	c.mu.Unlock()
	if ok {
		return size
	}
	size = storedSize(chrt)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.sizes[key]; !ok {
		c.sizes[key] = size
		runtime.AddCleanup(chrt, c.drop, key)
	}
	return size
}

func (c *sizeCache) drop(key weak.Pointer[chart.Chart]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sizes, key)
}

// storedSize returns how large a value is when Helm stores it, zero where it cannot be stored at all.
func storedSize(value any) int {
	var counter countingWriter
	compressor, err := gzip.NewWriterLevel(&counter, gzip.BestCompression)
	if err != nil {
		return 0
	}
	if err := json.NewEncoder(compressor).Encode(value); err != nil {
		return 0
	}
	if err := compressor.Close(); err != nil {
		return 0
	}
	return base64.StdEncoding.EncodedLen(int(counter))
}

// countingWriter counts what is written to it.
type countingWriter int

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	*w += countingWriter(len(p))
	return len(p), nil
}
