/* GenICam features from KEY=VALUE: checked against type and range, then set. */
#include "base/text.h"
#include "stream/source_aravis.h"

#include <inttypes.h>
#include <string.h>

enum { KEY_MAX = 127 };

/* A camera that refuses is the user's business, one that does not answer is not. */
static tg_status set_failed(tg_error *err, const char *camera, const char *key, GError *why)
{
    bool silent = why != NULL && why->domain == ARV_DEVICE_ERROR &&
                  (why->code == ARV_DEVICE_ERROR_TIMEOUT ||
                   why->code == ARV_DEVICE_ERROR_TRANSFER_ERROR ||
                   why->code == ARV_DEVICE_ERROR_NOT_CONNECTED);
    char doing[KEY_MAX + 16];
    (void)g_snprintf(doing, sizeof doing, "feature '%s'", key);
    return aravis_fail(err, silent ? TG_IO : TG_INVALID, camera, doing, why);
}

static tg_status wrong_value(tg_error *err, const char *camera, const char *key,
                             const char *value, const char *want)
{
    return tg_fail(err, TG_INVALID, "camera '%s': feature '%s' is '%.60s', want %s", camera,
                   key, value, want);
}

static tg_status set_boolean(ArvCamera *c, const char *camera, const char *key,
                             const char *value, tg_error *err)
{
    GError *why = NULL;
    bool on = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!on && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
        return wrong_value(err, camera, key, value, "true or false");
    arv_camera_set_boolean(c, key, on, &why);
    return why == NULL ? TG_OK : set_failed(err, camera, key, why);
}

static tg_status set_integer(ArvCamera *c, const char *camera, const char *key,
                             const char *value, tg_error *err)
{
    GError *why = NULL;
    gint64 least = 0, most = 0;
    int64_t v = 0;
    char want[96];
    if (tg_parse_i64(value, &v, NULL) != TG_OK)
        return wrong_value(err, camera, key, value, "an integer");
    arv_camera_get_integer_bounds(c, key, &least, &most, &why);
    if (why != NULL)
        return set_failed(err, camera, key, why);
    (void)g_snprintf(want, sizeof want, "%" PRId64 " to %" PRId64, (int64_t)least,
                     (int64_t)most);
    if (v < least || v > most)
        return wrong_value(err, camera, key, value, want);
    arv_camera_set_integer(c, key, v, &why);
    return why == NULL ? TG_OK : set_failed(err, camera, key, why);
}

static tg_status set_float(ArvCamera *c, const char *camera, const char *key, const char *value,
                           tg_error *err)
{
    GError *why = NULL;
    double least = 0, most = 0, v = 0;
    char want[96];
    if (tg_parse_double(value, &v, NULL) != TG_OK)
        return wrong_value(err, camera, key, value, "a number");
    arv_camera_get_float_bounds(c, key, &least, &most, &why);
    if (why != NULL)
        return set_failed(err, camera, key, why);
    (void)g_snprintf(want, sizeof want, "%g to %g", least, most);
    if (v < least || v > most)
        return wrong_value(err, camera, key, value, want);
    arv_camera_set_float(c, key, v, &why);
    return why == NULL ? TG_OK : set_failed(err, camera, key, why);
}

static tg_status set_enumeration(ArvCamera *c, const char *camera, const char *key,
                                 const char *value, tg_error *err)
{
    GError *why = NULL;
    guint n = 0;
    char want[256] = "one of";
    bool known = false;
    const char **names = arv_camera_dup_available_enumerations_as_strings(c, key, &n, &why);
    if (names == NULL)
        return set_failed(err, camera, key, why);
    for (guint i = 0; i < n; i++) {
        known |= strcmp(names[i], value) == 0;
        (void)g_strlcat(want, i == 0 ? " " : ", ", sizeof want);
        (void)g_strlcat(want, names[i], sizeof want);
    }
    g_free(names);
    if (!known)
        return wrong_value(err, camera, key, value, want);
    arv_camera_set_string(c, key, value, &why);
    return why == NULL ? TG_OK : set_failed(err, camera, key, why);
}

static tg_status set_string(ArvCamera *c, const char *camera, const char *key,
                            const char *value, tg_error *err)
{
    GError *why = NULL;
    arv_camera_set_string(c, key, value, &why);
    return why == NULL ? TG_OK : set_failed(err, camera, key, why);
}

static tg_status execute(ArvCamera *c, const char *camera, const char *key, const char *value,
                         tg_error *err)
{
    GError *why = NULL;
    if (strcmp(value, "1") != 0)
        return wrong_value(err, camera, key, value, "1, for it is a command");
    arv_camera_execute_command(c, key, &why);
    return why == NULL ? TG_OK : set_failed(err, camera, key, why);
}

static tg_status set_by_type(ArvCamera *c, ArvGcNode *node, const char *camera, const char *key,
                             const char *value, tg_error *err)
{
    /* An enumeration is an integer and a string, too: the narrowest type first. */
    if (ARV_IS_GC_BOOLEAN(node))
        return set_boolean(c, camera, key, value, err);
    if (ARV_IS_GC_ENUMERATION(node))
        return set_enumeration(c, camera, key, value, err);
    if (ARV_IS_GC_COMMAND(node))
        return execute(c, camera, key, value, err);
    if (ARV_IS_GC_FLOAT(node))
        return set_float(c, camera, key, value, err);
    if (ARV_IS_GC_INTEGER(node))
        return set_integer(c, camera, key, value, err);
    if (ARV_IS_GC_STRING(node))
        return set_string(c, camera, key, value, err);
    return tg_fail(err, TG_INVALID, "camera '%s': feature '%s' has no value", camera, key);
}

tg_status aravis_set_feature(ArvCamera *camera, const char *name, const char *text,
                             tg_error *err)
{
    char key[KEY_MAX + 1];
    size_t n = strcspn(text, "=");
    if (text[n] != '=' || n == 0 || n > KEY_MAX)
        return tg_fail(err, TG_INVALID, "camera '%s': '%.80s', want FEATURE=VALUE", name, text);
    memcpy(key, text, n);
    key[n] = '\0';
    ArvDevice *device = arv_camera_get_device(camera);
    ArvGcNode *node = arv_device_get_feature(device, key);
    if (node == NULL || !ARV_IS_GC_FEATURE_NODE(node))
        return tg_fail(err, TG_INVALID, "camera '%s' has no feature '%s'", name, key);
    if (arv_device_get_feature_access_mode(device, key) == ARV_GC_ACCESS_MODE_RO)
        return tg_fail(err, TG_INVALID, "camera '%s': feature '%s' can only be read", name,
                       key);
    return set_by_type(camera, node, name, key, text + n + 1, err);
}
