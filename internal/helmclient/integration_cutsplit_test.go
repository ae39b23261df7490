// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationCutSplitOnce drops the response to each request that replaces a split record, and checks that the
// payload of the record is kept.
func TestIntegrationCutSplitOnce(t *testing.T) {
	cases := cutCases()
	recovery := cases["install"]
	recovery.prepare = (*cutRun).cutInstall
	for action, c := range map[string]cutCase{"test": cases["test"], "recovery": recovery} {
		c.modes = []string{"response lost once"}
		c.also = (*cutRun).onlyReferred
		for name, stored := range map[string]func() model.Storage{
			"cluster": func() model.Storage { return model.Storage{SplitAll: true} },
			"store":   func() model.Storage { return model.Storage{Store: newMemoryStore(), Outside: true} },
		} {
			t.Run(name+"/"+action, func(t *testing.T) {
				b := newBench(t)
				b.target.Storage = stored()
				b.cutEverywhere(t, c)
			})
		}
	}
}

// cutInstall leaves behind a pending record.
func (r *cutRun) cutInstall() error {
	decision, err := r.decide(r.ctx)
	if err != nil {
		return err
	}
	cut := &helmtest.Cutter{After: -1, Last: func(req *http.Request) bool {
		return req.Method != http.MethodGet && strings.Contains(req.URL.Path, "/configmaps")
	}}
	config := r.server.RESTConfig()
	config.Wrap(cut.Wrap)
	_, err = New(testRunner).Act(r.ctx, model.Target{Key: r.name, Config: config, Storage: r.storage}, decision, r.desired,
		r.options, r.chart, r.values)
	if !errors.Is(err, helmerr.ErrUnreachable) {
		return fmt.Errorf("an install that was cut off: %w", err)
	}
	r.restart()
	if decision, err = r.decide(r.ctx); err == nil && decision.Recovery != decide.RecoverReplace {
		err = fmt.Errorf("not to be replaced: %+v", decision)
	}
	return err
}
