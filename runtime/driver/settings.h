// settings.h - what a run is configured with: the reference's train_config and what is
// added to it.
//
// Values live in a JSON tree with the reference's sections, every field present and in
// its order. Fields that a model file declares and the reference does not know are kept
// beside it.

#ifndef PCVR_SETTINGS_H
#define PCVR_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "error.h"

typedef enum FieldKind {
    FIELD_INT,
    FIELD_FLOAT,
    FIELD_BOOL,
    FIELD_TEXT,
    FIELD_CHOICE,
    FIELD_INT_OR_NULL,
    FIELD_TEXT_OR_NULL,
    FIELD_GROUPS,     // {name: [int]}
    FIELD_TRANSFORMS, // list of batch transforms
    FIELD_TERMS,      // list of loss terms
    FIELD_JSON        // of a model file: any other type
} FieldKind;

typedef struct Field {
    const char *path; // "optimizer.lr"
    FieldKind kind;
    const char *standard;     // JSON of the generic default
    const char *choices;      // FIELD_CHOICE: "a|b|c"
    double low, high;         // allowed numbers; equal: any
    bool open_low, open_high; // the end itself is not allowed
} Field;

// One of the reference's configuration classes: the common fields and what a model adds.
typedef struct SettingsClass {
    const char *name;   // "PCVRTrainConfig"
    const Field *model; // extra fields of the model section, in order
    int n_model;
} SettingsClass;

typedef struct Settings {
    const SettingsClass *kind;
    json_t *root; // the sections
    Field *own;   // fields of the model file alone, paths "model.NAME"
    int n_own;
    json_t *extra; // {"model.NAME": value} of those
} Settings;

// The class of that name, or NULL.
const SettingsClass *settings_class(const char *name);
// The class whose extra fields a model declares most of ("NAME" without "model."); the
// common one if none.
const SettingsClass *settings_class_for(const json_t *model_fields);

// Fills in the generic defaults. settings_free afterwards, also after a failure.
bool settings_init(Settings *s, const SettingsClass *kind, PcvrError *err);
void settings_free(Settings *s);

// The defaults of a model file: `fields` its configuration (nested at the dots of names),
// `train` its train section {dotted key: value}. What the reference does not know becomes
// a field of its own.
bool settings_take_model(Settings *s, const json_t *fields, const json_t *train,
                         PcvrError *err);

// The field behind a dotted path, NULL if there is none; parts of loss terms, transforms
// and groups included.
const Field *settings_field(const Settings *s, const char *path);
// Number of fields, and the i-th of them, for listings.
int settings_n_fields(const Settings *s);
const Field *settings_field_at(const Settings *s, int i);

// The value at a path (borrowed), NULL if there is none.
json_t *settings_get(const Settings *s, const char *path);
int64_t settings_int(const Settings *s, const char *path);
double settings_float(const Settings *s, const char *path);
bool settings_bool(const Settings *s, const char *path);
const char *settings_text(const Settings *s, const char *path);

// Sets a field after bringing the value to its kind; range and choices are checked.
// Steals `value`.
bool settings_set(Settings *s, const char *path, json_t *value, PcvrError *err);
// The same from the text of a command line.
bool settings_set_text(Settings *s, const char *path, const char *text, PcvrError *err);
// Replaces transform `index` by the class "pcvr_…_config" with its default fields.
bool settings_choose_transform(Settings *s, int index, const char *selector,
                               PcvrError *err);

// Rules between fields: unique loss names, token sums, lists written as text.
bool settings_check(const Settings *s, PcvrError *err);
// Whether this program does what is asked for: a feature it lacks is an error naming the
// flag, the value and what there is instead.
bool settings_supported(const Settings *s, PcvrError *err);

// The model section as the compiler takes it: reference fields and the model file's own,
// nested.
json_t *settings_model_json(const Settings *s);

// The text of train_config.json, byte for byte the reference's form. The caller frees it.
char *settings_write(const Settings *s);
// The text of pcvr.json: {"model": {own fields}, …`about`}. The caller frees it.
char *settings_write_extra(const Settings *s, const json_t *about);
// Replaces the values by those of a train_config.json: strict, every field must be there
// and no other. `label` names the file in messages.
bool settings_read(Settings *s, const char *text, size_t n, const char *label,
                   PcvrError *err);
// Takes the own fields of a pcvr.json; unknown ones are ignored.
bool settings_read_extra(Settings *s, const char *text, size_t n, const char *label,
                         PcvrError *err);

// settings_fields.c
// Prints the common fields as flags, a line each, with their defaults and choices.
void settings_print(FILE *f);
extern const Field settings_common[];
extern const int settings_n_common;
extern const Field settings_term_fields[];
extern const int settings_n_term_fields;
// Fields of the transform called `name` ("feature_mask") or chosen by a selector; NULL if
// there is none.
typedef struct TransformClass {
    const char *name, *selector;
    const Field *fields;
    int n;
} TransformClass;
const TransformClass *settings_transform(const char *name);
const TransformClass *settings_transform_selected(const char *selector);

// settings_value.c: `value` brought to the kind of a field, NULL with an error otherwise.
// Steals `value`.
json_t *settings_coerce(const Field *f, const char *path, json_t *value, PcvrError *err);

#endif
