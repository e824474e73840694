package main

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "demo.zaffre.io/config-map"

// reconciler keeps one ConfigMap per Widget, the way most operators keep their children.
type reconciler struct {
	client.Client
	events record.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w Widget
	if err := r.Get(ctx, req.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "widget-" + w.Name}}

	if !w.DeletionTimestamp.IsZero() {
		// The child goes first and by hand: the server under test may have no garbage collector.
		if err := client.IgnoreNotFound(r.Delete(ctx, cm)); err != nil {
			return ctrl.Result{}, err
		}
		if controllerutil.RemoveFinalizer(&w, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &w))
		}
		return ctrl.Result{}, nil
	}

	if !controllerutil.ContainsFinalizer(&w, finalizer) {
		before := w.DeepCopy()
		controllerutil.AddFinalizer(&w, finalizer)
		if err := r.Patch(ctx, &w, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, again(err)
		}
	}

	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
		cm.Data = map[string]string{"message": w.Spec.Message, "size": strconv.Itoa(int(w.Spec.Size))}
		return controllerutil.SetControllerReference(&w, cm, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, again(err)
	}
	if result == controllerutil.OperationResultCreated {
		r.events.Eventf(&w, corev1.EventTypeNormal, "Created", "made ConfigMap %s", cm.Name)
	}

	want := WidgetStatus{ObservedGeneration: w.Generation, ConfigMap: cm.Name, Phase: "Ready"}
	if w.Status != want {
		w.Status = want
		return ctrl.Result{}, again(r.Status().Update(ctx, &w))
	}
	return ctrl.Result{}, nil
}

// again leaves conflicts to the queue's backoff like any error, except that a deleted object needs no retry.
func again(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
