// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// TestRecordSizes checks which charts fit into one Secret. Helm compresses the base64 of files. In a Secret, the texts
// of a chart therefore shrink to between a fifth and two fifths. In the archive, they shrink to a tenth.
func TestRecordSizes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		chart *chart.Chart
		fits  bool
	}{
		"CRDs of 700 KiB":                 {helmtest.BigCRDChart(20, 0), true},
		"CRDs of 2 MiB and 30 dashboards": {helmtest.BigCRDChart(60, 30), false},
	} {
		store := records.NewStore(t.Context(), records.StoreOptions{Codec: recordcodec.New()})
		packed, err := store.Pack(recordOf(test.chart))
		if err != nil {
			t.Fatal(err)
		}
		size := base64.StdEncoding.EncodedLen(len(packed))
		t.Logf("%s: %d KiB of files are %d KiB in Helm's Secret", name, records.ChartBytes(test.chart)>>10, size>>10)
		if got := size <= model.MaxRecordSize; got != test.fits {
			t.Errorf("%s: %d bytes fit: %t", name, size, got)
		}
	}
}

// recordOf returns a release of a chart whose manifest contains the dashboards of the chart, as in a monitoring stack.
func recordOf(chrt *chart.Chart) *release.Release {
	var manifest strings.Builder
	for _, file := range chrt.Files {
		if strings.HasPrefix(file.Name, "dashboards/") {
			fmt.Fprintf(&manifest,
				"---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  dashboard.json: |\n    %s\n", file.Name,
				file.Data)
		}
	}
	return &release.Release{Name: "big", Namespace: "apps", Version: 1, Info: &release.Info{}, Chart: chrt,
		Manifest: manifest.String()}
}
