"""The door for TensorFlow: functions, Keras models, SavedModel folders."""
